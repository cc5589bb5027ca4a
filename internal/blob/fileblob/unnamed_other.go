//go:build !linux

package fileblob

import (
	"errors"
	"os"
)

func openUnnamed(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func linkUnnamed(*os.File, string) error { return errors.ErrUnsupported }

func beginSync(*os.File, int64, int64) {}
