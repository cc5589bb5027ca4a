package step

import (
	"os"
	"runtime/debug"
)

// TuneCollector has the garbage collector let the heap grow by less than it does by itself, unless GOGC says what is wanted. What workers hold is mostly without
// pointers, so that a collection costs little, and their memory is what a machine or a function is sized by.
func TuneCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(40)
	}
}
