// Hindcast recomputes weeks of history into a new version, proves it, and swaps it in.
package main

import (
	"os"

	"hindcast/internal/cli"
	"hindcast/jobs"
)

func main() { os.Exit(cli.Main(os.Args[1:], cli.Std(), jobs.All())) }
