// The Lambda function of the states that wait for an approval.
package main

import (
	"hindcast/internal/cloud"
	"hindcast/internal/step"
	"hindcast/jobs"
)

func main() { cloud.Start(step.Approve, jobs.All()) }
