package parquetfile

import "fmt"

// What a file may ask for. Files past these are refused: a footer states its
// sizes, and the bytes behind it may not be what their writer meant.
const (
	maxFooter      = 64 << 20
	maxPageHeader  = 16 << 20
	maxPage        = 256 << 20 // compressed or not
	maxGroupRows   = 1 << 31
	maxDeltaValues = 1 << 24   // strings of a page whose lengths are delta-encoded
	maxBatchBytes  = 256 << 20 // of one string column of a batch
	// maxHeld is what one Reader holds of pages and dictionaries, over all columns. To it come its batch and 32 MiB of input.
	maxHeld = 1 << 30
	// Row groups whose needed bytes pass preload are read in windows by column; below, neighbours nearer than nearby are read as one.
	preload = 32 << 20
	nearby  = 64 << 10
	window  = 4 << 20
)

// budget is shared by the columns of a reader.
type budget struct{ held int64 }

// resize accounts for a buffer of was bytes that becomes one of now bytes.
func (b *budget) resize(was, now int) error {
	b.held += int64(now - was)
	if b.held > maxHeld {
		return fmt.Errorf("pages and dictionaries of more than %d MiB would be held at once", maxHeld>>20)
	}
	return nil
}
