// Package infra holds what runs Hindcast: the one state machine definition, which AWS Step Functions and internal/asl both run.
package infra

import _ "embed" // for the definition

// Backfill is the state machine's definition in the Amazon States Language,
// with ${…Function} where the functions' names go.
//
//go:embed backfill.asl.json
var Backfill []byte
