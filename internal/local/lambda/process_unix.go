//go:build unix

package lambda

import (
	"os"
	"os/exec"
	"syscall"
)

// apart puts the process into a group of its own: a Ctrl-C at the terminal is not for it. When this process ends, however, the kernel wakes
// and hangs up groups that have frozen members and nobody to wake them; and who is not frozen finds nobody to ask for work.
func apart(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
