package plan

import "hindcast/internal/spec"

// The record times that an integer column may have: of the years 1980 to 9999. Beyond lie seconds, microseconds and clocks that were not set.
const (
	leastMillis = 315_532_800_000
	mostMillis  = 253_402_300_799_999
)

// MillisTime is the record time that an integer without a unit stands for: Kafka's own are milliseconds since 1970. It is not ok where it
// cannot be one.
func MillisTime(v int64) (micros int64, ok bool) {
	if v < leastMillis || v > mostMillis {
		return 0, false
	}
	return v * int64(spec.Millisecond), true
}
