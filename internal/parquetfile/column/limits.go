package column

import "fmt"

// What a file may ask for. What is past these is refused: a header states
// sizes, and the bytes behind it may not be what its writer meant.
const (
	maxPageHeader  = 16 << 20
	maxPage        = 256 << 20 // compressed or not
	maxDeltaValues = 1 << 24   // strings of a page whose lengths are delta-encoded
	maxBatchBytes  = 256 << 20 // of one string column of a batch
	// maxHeld is what readers that share a budget hold of pages and dictionaries.
	maxHeld = 1 << 30
)

// Window is how much of a column [Reader.StartAt] reads at a time.
const Window = 4 << 20

// Budget bounds what readers that share it hold at once: 1 GiB of pages and dictionaries.
type Budget struct{ held int64 }

// resize accounts for a buffer of was bytes that becomes one of now bytes.
func (b *Budget) resize(was, now int) error {
	b.held += int64(now - was)
	if b.held > maxHeld {
		return fmt.Errorf("pages and dictionaries of more than %d MiB would be held at once", maxHeld>>20)
	}
	return nil
}
