package job

import (
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// calling calls a function of the author's. An error is what it panicked with.
func calling(function string, f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError(function, v)
		}
	}()
	f()
	return nil
}

// panicError says what panicked and where. It is called by a deferred function that recovered v, while the panicking frames can still be seen.
func panicError(function string, v any) error {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	panicked := false
	for {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		if inRuntime && (f.Function == "runtime.gopanic" || f.Function == "runtime.sigpanic") {
			panicked = true
		}
		if panicked && !inRuntime {
			file := filepath.ToSlash(f.File)
			return fmt.Errorf("%s panicked at %s:%d: %v", function, path.Join(path.Base(path.Dir(file)), path.Base(file)), f.Line, v)
		}
		if !more {
			return fmt.Errorf("%s panicked: %v", function, v)
		}
	}
}
