//go:build !unix

package aslfile

import "time"

// processTime is not known here.
func processTime() time.Duration { return 0 }
