// The Lambda function of the state Plan.
package main

import (
	"hindcast/internal/cloud"
	"hindcast/internal/step"
	"hindcast/jobs"
)

func main() { cloud.Start(step.Plan, jobs.All()) }
