// The Lambda function of the state Capture.
package main

import (
	"hindcast/internal/cloud"
	"hindcast/internal/step"
	"hindcast/jobs"
)

func main() { cloud.Start(step.Capture, jobs.All()) }
