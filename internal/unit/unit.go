// Package unit holds quantities that carry their unit in their type.
package unit

import "fmt"

// Bytes is a size in bytes.
type Bytes int64

// String writes b with a decimal prefix, as "7.6 MB".
func (b Bytes) String() string {
	const step = 1000
	if b < step && b > -step {
		return fmt.Sprintf("%d B", int64(b))
	}
	v, prefix := float64(b), ""
	for _, p := range []string{"k", "M", "G", "T", "P"} {
		if v < step && v > -step {
			break
		}
		v, prefix = v/step, p
	}
	return fmt.Sprintf("%.1f %sB", v, prefix)
}
