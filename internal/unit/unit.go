// Package unit holds quantities that carry their unit in their type.
package unit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

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

// sizes are the units that a size may be written in.
var sizes = map[string]int64{
	"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

// ParseBytes reads a whole number with its unit: "64MB" is 64 million bytes, "1GiB" is 2^30.
func ParseBytes(s string) (Bytes, error) {
	digits := strings.TrimRight(s, "kKMGTiB")
	n, err := strconv.ParseUint(digits, 10, 63)
	by, ok := sizes[s[len(digits):]]
	if err != nil || !ok {
		return 0, fmt.Errorf("%q is not a size: write a whole number with its unit, as 64MB (a million bytes each) or 1GiB (2^30)", s)
	}
	if n > uint64(math.MaxInt64/by) {
		return 0, fmt.Errorf("%q is more than a size can be", s)
	}
	return Bytes(n) * Bytes(by), nil
}
