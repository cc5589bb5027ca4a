// The Lambda function of the state Promote.
package main

import (
	"hindcast/internal/cloud"
	"hindcast/internal/step"
	"hindcast/jobs"
)

func main() { cloud.Start(step.Promote, jobs.All()) }
