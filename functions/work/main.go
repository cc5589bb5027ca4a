// The Lambda function of the state Work.
package main

import (
	"hindcast/internal/cloud"
	"hindcast/internal/step"
	"hindcast/jobs"
)

func main() { cloud.Start(step.Work, jobs.All()) }
