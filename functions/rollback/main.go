// The Lambda function of the state Rollback.
package main

import (
	"hindcast/internal/cloud"
	"hindcast/internal/step"
	"hindcast/jobs"
)

func main() { cloud.Start(step.Rollback, jobs.All()) }
