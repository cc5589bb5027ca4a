// Package column decodes column chunks of Parquet files into columns of batches.
//
// Pages come one after the other, without seeking; values are decoded as they are asked for, so that what a page states costs
// nothing before somebody wants it. Every length and count is held against what is there. Page
// decoding is not left to the library: it inflates and allocates what a page states, reads LZ4_RAW pages and RLE booleans wrongly
// without an error, and skips the checksums of some dictionaries.
package column

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/parquetfile/footer"
	"hindcast/internal/record"
	"hindcast/internal/spare"
)

// Shape is what a column's values are, in the file and in batches.
type Shape struct {
	Kind record.Kind
	// Level is the definition level of values: at a lower one a row is null. It is 1 where the column may be null, more where it lies in
	// structures that may be, too, and 0 where nothing may.
	Level  int
	Type   format.Type
	Length int // of FIXED_LEN_BYTE_ARRAY
	Conv   Conversion
	// Scale is the power of ten that decimals are multiplied by; where it is negative they must be whole multiples of 10^-Scale.
	// Of numbers that are read as text it is how many digits are behind the point.
	Scale int
	// Zone is set where timestamps are what clocks showed there.
	Zone *time.Location
}

// Reader decodes one column, one chunk after the other. After an error it must not be used any more.
type Reader struct {
	// NoCRC passes over checksums: tests want to see what lies behind them.
	NoCRC bool

	shape  Shape
	codecs *Codecs
	budget *Budget
	meta   *footer.Chunk
	in     input
	then   input  // where the chunk goes on, behind in
	own    bool   // in.buf is the reader's own memory
	unread int64  // values of the chunk in pages not yet begun
	absent int64  // nulls of the chunk so far
	skip   int64  // rows that are not wanted and not yet passed over
	passed bool   // pages were that nobody looked into
	part   bool   // rows at the chunk's end are not read
	bare   bool   // see Codes
	pages  []Page // of the chunk that are not begun; nil where they are not known
	until  int64  // nothing is wanted from that row on; 0: not known

	hasDict bool
	entries int // of the dictionary
	ints    []int64
	least   int64 // of ints
	most    int64
	floats  []float64
	strings record.Strings

	// The page: its values not yet taken, and where they come from.
	left     int
	total    int
	nulls    int // seen so far
	header   footer.PageHeader
	mem      []byte
	rest     []byte // what the page is decompressed from, where mem has only its first bytes, which are there
	there    int
	data     []byte
	levels   hybrid
	codes    hybrid
	delta    delta
	bit      int
	lens     []int64
	prefixes []int64
	at       int // among lens; in values, of a byte stream split
	prev     []byte

	// What the footer's statistics claim.
	lo, hi   int64
	bounded  bool
	expected int64 // nulls
	counted  bool

	// The batch that is being filled.
	out     record.Column
	nullBuf record.Bitmap
	hasNull bool
	codeBuf []uint32
	scratch []uint32
	plain   record.Strings // memory of plain strings
	wide    record.Strings // numbers in bytes, before they are numbers
	ints64  []int64        // numbers before they are text
}

// NewReader returns a reader of columns of a shape. Readers that are used in turn share codecs and a budget.
func NewReader(shape Shape, codecs *Codecs, budget *Budget) *Reader {
	return &Reader{shape: shape, codecs: codecs, budget: budget}
}

// Start begins a chunk whose bytes are data, behind which at least [Padding] bytes of capacity lie.
func (c *Reader) Start(meta *footer.Chunk, data []byte) error {
	c.in = input{buf: data, noCRC: c.NoCRC}
	c.own = false
	return c.start(meta)
}

// StartAt begins a chunk that is read from r in windows.
func (c *Reader) StartAt(meta *footer.Chunk, r io.ReaderAt) error {
	buf := c.in.buf[:0]
	if !c.own {
		buf = nil
	}
	c.in = input{r: r, off: meta.Start(), end: meta.Start() + meta.Length(), buf: buf, noCRC: c.NoCRC}
	c.own = true
	return c.start(meta)
}

// Then says that behind the dictionary that [Reader.Start] was given, the chunk goes on with data, as there.
func (c *Reader) Then(data []byte) { c.then = input{buf: data, noCRC: c.NoCRC} }

// ThenAt says that behind the dictionary that [Reader.StartAt] was given, the chunk goes on with length bytes at offset off.
func (c *Reader) ThenAt(off, length int64) { c.then = input{off: off, end: off + length} }

// Page is what a page index states of a data page.
type Page struct {
	Values  int64
	Lo, Hi  int64
	Bounded bool // by Lo and Hi
}

// ExpectPages holds data pages against what an index states of them, in order; so no page may follow them.
func (c *Reader) ExpectPages(pages []Page) { c.pages = pages }

// Release gives the memory of pages to others. There is no more to be read before the next chunk begins.
func (c *Reader) Release() {
	spare.Put(c.mem)
	c.budget.held -= int64(cap(c.mem))
	c.mem, c.rest, c.data = nil, nil, nil
}

// Part says that not all rows of the chunk will be read.
func (c *Reader) Part() { c.part = true }

func (c *Reader) start(meta *footer.Chunk) error {
	c.meta, c.unread, c.left, c.absent, c.bounded = meta, meta.Values, 0, 0, false
	c.counted, c.skip, c.passed = false, 0, false
	c.then, c.part, c.pages, c.until, c.bare = input{}, false, nil, 0, false
	return c.dropDictionary()
}

// Expect holds the chunk's values against bounds: one outside is an error.
func (c *Reader) Expect(lo, hi int64) { c.lo, c.hi, c.bounded = lo, hi, true }

// ExpectNulls holds the number of the chunk's nulls against n.
func (c *Reader) ExpectNulls(n int64) { c.expected, c.counted = n, true }

// Skip leaves the next n rows out. Pages that have no other rows are not decompressed. Values that are left out are held against nothing, nor is the end of a page
// that only has such.
func (c *Reader) Skip(n int) { c.skip += int64(n) }

// Codes has strings of the chunk that lie by codes come by these alone, without their dictionary, which is not looked into. What is filled at a time lies in one page.
func (c *Reader) Codes() { c.bare = true }

// Fill decodes the next n rows into out, which is valid until the next call.
func (c *Reader) Fill(n int, out *record.Column) error {
	if err := c.pass(); err != nil {
		return err
	}
	if err := c.fill(n); err != nil {
		return err
	}
	*out = c.out
	return nil
}

// pass passes over the rows that were skipped.
func (c *Reader) pass() error {
	for c.skip > 0 {
		if c.left == 0 {
			if err := c.nextPage(); err != nil || c.left == 0 {
				return err
			}
		}
		if c.skip >= int64(c.left) { // nobody looks into the rest of the page
			c.skip -= int64(c.left)
			c.left, c.passed = 0, true
			continue
		}
		n := min(int(c.skip), passRows)
		c.skip -= int64(n)
		if err := c.step(func() error { return c.omit(n) }); err != nil {
			return err
		}
	}
	return nil
}

// passRows is how many rows are passed over at a time.
const passRows = 4096

// fill decodes the next n rows into c.out.
func (c *Reader) fill(n int) error {
	c.begin(n)
	for at := 0; at < n; {
		if c.left == 0 {
			if err := c.nextPage(); err != nil {
				return err
			}
		}
		k := min(n-at, c.left)
		err := c.step(func() error {
			present, err := c.present(at, k)
			if err != nil {
				return err
			}
			return c.take(at, k, present)
		})
		if err != nil {
			return err
		}
		at, c.left = at+k, c.left-k
		if c.left == 0 {
			if err := c.endPage(); err != nil {
				return err
			}
		}
	}
	if c.hasNull {
		c.out.Nulls = c.nullBuf
	}
	return nil
}

// present finds out which of the next k rows are null, from row at of the batch on, and returns how many are not.
func (c *Reader) present(at, k int) (int, error) {
	if c.shape.Level == 0 {
		return k, nil
	}
	present, err := c.levels.levels(c.shape.Level, c.nullBuf, at, k, c.scratch)
	if err != nil {
		return 0, err
	}
	c.nulls += k - present
	c.absent += int64(k - present)
	c.hasNull = c.hasNull || present < k
	return present, nil
}

// begin readies the column for a batch of n rows.
func (c *Reader) begin(n int) {
	if cap(c.scratch) < n {
		size := (n + 63) &^ 63
		c.scratch = make([]uint32, size)
		c.nullBuf = record.NewBitmap(size)
	}
	clear(c.nullBuf)
	c.hasNull = false
	kind := c.shape.Kind
	c.out.Kind, c.out.Nulls = kind, nil
	switch kind {
	case record.Float64:
		c.out.Float64s = slices.Grow(c.out.Float64s[:0], n)[:n]
	case record.String:
		c.out.Strings = record.Strings{}
		c.codeBuf = slices.Grow(c.codeBuf[:0], n)
		c.plain.Data = c.plain.Data[:0]
		c.plain.Offsets = append(c.plain.Offsets[:0], 0)
	default:
		c.out.Int64s = slices.Grow(c.out.Int64s[:0], n)[:n]
	}
}

// take decodes k rows of the page from row at of the batch on; present of them are not null.
func (c *Reader) take(at, k, present int) error {
	switch c.shape.Kind {
	case record.String:
		return c.takeStrings(at, k, present)
	case record.Float64:
		v := c.out.Float64s[at : at+k]
		if err := c.readFloats(v[:present]); err != nil {
			return err
		}
		spread(v, present, c.nullBuf, at)
	case record.Bool:
		v := c.out.Int64s[at : at+k]
		if err := c.readBools(v[:present]); err != nil {
			return err
		}
		spread(v, present, c.nullBuf, at)
	default:
		v := c.out.Int64s[at : at+k]
		if err := c.readInts(v[:present]); err != nil {
			return err
		}
		spread(v, present, c.nullBuf, at)
	}
	return nil
}

// takeStrings keeps codes while all pages of the batch have them; otherwise the batch has plain strings.
func (c *Reader) takeStrings(at, k, present int) error {
	coded := c.header.Encoding == format.RLEDictionary && at == len(c.codeBuf)
	if coded {
		c.codeBuf = c.codeBuf[:at+k]
		v := c.codeBuf[at:]
		if err := c.readCodes(v[:present]); err != nil {
			return err
		}
		spread(v, present, c.nullBuf, at)
		c.out.Strings = c.strings
		c.out.Strings.Codes = c.codeBuf
		return nil
	}
	if n := len(c.codeBuf); n > 0 {
		// The dictionary had no room for what follows.
		c.codeBuf = c.codeBuf[:0]
		if err := c.plainOf(n); err != nil {
			return err
		}
	}
	if err := c.readStrings(&c.plain, present); err != nil {
		return err
	}
	if present < k {
		offsets := slices.Grow(c.plain.Offsets, k-present)[:at+1+k]
		for i, j := k, present; i > j; i-- {
			// offsets[at+i] ends row i-1 of these; a null row ends where the one before it does.
			offsets[at+i] = offsets[at+j]
			if !c.nullBuf.Get(at + i - 1) {
				j--
			}
		}
		c.plain.Offsets = offsets
	}
	c.out.Strings = c.plain
	return nil
}

// plainOf turns the n codes at the start of the batch into plain strings.
func (c *Reader) plainOf(n int) error {
	for row, code := range c.codeBuf[:n] {
		if c.nullBuf.Get(row) {
			c.plain.Offsets = append(c.plain.Offsets, uint32(len(c.plain.Data)))
			continue
		}
		if err := c.lookUp(&c.plain, []uint32{code}); err != nil {
			return err
		}
	}
	return nil
}

// Finish holds a chunk against its statistics, and makes sure that it has no more values than its row group has rows.
func (c *Reader) Finish() error {
	if c.part {
		return nil
	}
	if err := c.pass(); err != nil {
		return err
	}
	if c.counted && !c.passed && c.expected != c.absent {
		return fmt.Errorf("it has %d nulls where its statistics state %d: what they are used for cannot be trusted", c.absent, c.expected)
	}
	for c.in.left() > c.meta.Slack {
		h, _, err := c.in.page()
		if err != nil {
			return fmt.Errorf("behind its last value: %w", err)
		}
		if h.Described && h.Type != format.DictionaryPage && h.Values > 0 {
			return fmt.Errorf("it holds more than the %d values that the footer states", c.meta.Values)
		}
	}
	return nil
}
