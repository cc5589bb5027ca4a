package kafkaenv

import (
	"os/exec"
	"syscall"
)

// dieWithUs has the system kill the process when ours ends, even without a last word: a test that runs into its time limit.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
