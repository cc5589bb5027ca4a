// The Lambda function of the state Round.
package main

import (
	"hindcast/internal/cloud"
	"hindcast/internal/step"
	"hindcast/jobs"
)

func main() { cloud.Start(step.Round, jobs.All()) }
