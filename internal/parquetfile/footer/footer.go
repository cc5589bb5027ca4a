// Package footer decodes a Parquet file's metadata: its footer, and the headers of its pages.
//
// The bytes may be hostile. Nothing is allocated but in proportion to them, no length is taken on trust, and nesting has a
// limit. It says what is there; whether that makes sense is for the callers. The library's decoder does
// none of this: it allocates what a list's length asks for, and nests until the stack overflows.
package footer

import (
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go/format"
)

// Footer is what is used of a file's metadata. Slices of bytes are parts of the footer as it was read.
type Footer struct {
	Rows      int64
	CreatedBy string
	Encrypted bool // or signed with a key; the rest may then be missing
	Schema    []Element
	Groups    []Group
	KeyValue  []KeyValue
}

// KeyValue is what a writer noted for its readers.
type KeyValue struct{ Key, Value []byte }

// Element is a node of the schema, which lists them depth first.
type Element struct {
	Name       string
	Type       int32 // format.Type, or -1
	Length     int32
	Repetition int32 // format.FieldRepetitionType, or -1
	Children   int32
	Converted  int32 // deprecated.ConvertedType, or -1
	Scale      int32 // of decimals, beside the old annotation
	Precision  int32
	Logical    Logical
}

// Logical is the annotation of a column; ID 0 means that there is none.
type Logical struct {
	ID     int16
	Unit   int16 // of times and timestamps: 1 ms, 2 µs, 3 ns
	UTC    bool
	Bits   int32 // of integers
	Signed bool
	Scale  int32 // of decimals
	// Precision is a decimal's number of digits.
	Precision int32
}

// The IDs of logical types.
const (
	String    = 1
	Enum      = 4
	Decimal   = 5
	Date      = 6
	Time      = 7
	Timestamp = 8
	Interval  = 9 // reserved for it; files have the old annotation
	Integer   = 10
	Null      = 11
	JSON      = 12
	BSON      = 13
	UUID      = 14
	Float16   = 15
	Variant   = 16
	Geometry  = 17
	Geography = 18
)

// Group is a row group.
type Group struct {
	Rows   int64
	Chunks []Chunk
}

// Chunk is a column of a row group.
type Chunk struct {
	Elsewhere  bool // in another file
	Encrypted  bool
	Type       int32
	Path       string // joined by dots
	Codec      format.CompressionCodec
	Values     int64
	Compressed int64
	DataOffset int64
	DictOffset int64
	Stats      Statistics
	// Where its pages are listed, if they are, and where their bounds are.
	IndexOffset  int64
	IndexLength  int32
	BoundsOffset int64
	BoundsLength int32
	// Slack is how many bytes behind the chunk may still be its own. It is no part of the footer, nor is what follows.
	Slack int64
	// Uncounted means that pages which state no nulls may have some: their levels alone say.
	Uncounted bool
}

// Length is the number of bytes from the first page on that are read.
func (c *Chunk) Length() int64 { return c.Compressed + c.Slack }

// Start is where the first page lies.
func (c *Chunk) Start() int64 {
	if c.DictOffset > 0 && c.DictOffset < c.DataOffset {
		return c.DictOffset
	}
	return c.DataOffset
}

// Statistics has nil where values are unknown. The old fields are ordered as signed values.
type Statistics struct {
	OldMin, OldMax, Min, Max []byte
	Nulls                    int64
	Counted                  bool // Nulls is known
}

// Parse decodes b, all of it.
func Parse(b []byte) (*Footer, error) {
	f := &Footer{Rows: -1}
	r := &thriftReader{b: b}
	r.structure(thriftStruct, func(id int16, typ byte) {
		switch id {
		case 2:
			r.list(typ, func(typ byte) { f.Schema = append(f.Schema, r.schemaElement(typ)) })
		case 3:
			f.Rows = r.int(typ)
		case 4:
			r.list(typ, func(typ byte) { f.Groups = append(f.Groups, r.rowGroup(typ)) })
		case 5:
			r.list(typ, func(typ byte) { f.KeyValue = append(f.KeyValue, r.keyValue(typ)) })
		case 6:
			f.CreatedBy = string(r.binary(typ))
		case 8:
			f.Encrypted = true
			r.skip(typ)
		default:
			r.skip(typ)
		}
	})
	switch {
	case r.err != nil:
		return nil, r.err
	case f.Encrypted:
		return f, nil // a signature follows the structure
	case r.pos != len(b):
		return nil, fmt.Errorf("%d bytes follow the metadata", len(b)-r.pos)
	case len(f.Schema) == 0:
		return nil, errors.New("metadata has no schema")
	case f.Rows < 0:
		return nil, errors.New("metadata has no valid number of rows")
	}
	return f, nil
}

func (r *thriftReader) keyValue(typ byte) KeyValue {
	var kv KeyValue
	r.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			kv.Key = r.binary(typ)
		case 2:
			kv.Value = r.binary(typ)
		default:
			r.skip(typ)
		}
	})
	return kv
}

func (r *thriftReader) schemaElement(typ byte) Element {
	e := Element{Type: -1, Repetition: -1, Converted: -1}
	named := false
	r.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			e.Type = r.int32(typ)
		case 2:
			e.Length = r.int32(typ)
		case 3:
			e.Repetition = r.int32(typ)
		case 4:
			e.Name, named = string(r.binary(typ)), true
		case 5:
			e.Children = r.int32(typ)
		case 6:
			e.Converted = r.int32(typ)
		case 7:
			e.Scale = r.int32(typ)
		case 8:
			e.Precision = r.int32(typ)
		case 10:
			r.structure(typ, func(id int16, typ byte) {
				e.Logical.ID = id
				r.logical(&e.Logical, typ)
			})
		default:
			r.skip(typ)
		}
	})
	if !named {
		r.fail(errors.New("metadata has a column without a name"))
	}
	return e
}

func (r *thriftReader) logical(l *Logical, typ byte) {
	switch l.ID {
	case Decimal:
		r.structure(typ, func(id int16, typ byte) {
			switch id {
			case 1:
				l.Scale = r.int32(typ)
			case 2:
				l.Precision = r.int32(typ)
			default:
				r.skip(typ)
			}
		})
	case Time, Timestamp:
		r.structure(typ, func(id int16, typ byte) {
			switch id {
			case 1:
				l.UTC = r.bool(typ)
			case 2:
				r.structure(typ, func(id int16, typ byte) {
					l.Unit = id
					r.skip(typ)
				})
			default:
				r.skip(typ)
			}
		})
	case Integer:
		r.structure(typ, func(id int16, typ byte) {
			switch id {
			case 1:
				l.Bits = r.int32(typ)
			case 2:
				l.Signed = r.bool(typ)
			default:
				r.skip(typ)
			}
		})
	default:
		r.skip(typ)
	}
}

func (r *thriftReader) rowGroup(typ byte) Group {
	g := Group{Rows: -1}
	r.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			r.list(typ, func(typ byte) { g.Chunks = append(g.Chunks, r.chunk(typ)) })
		case 3:
			g.Rows = r.int(typ)
		default:
			r.skip(typ)
		}
	})
	if g.Rows < 0 {
		r.fail(errors.New("metadata has a row group without a valid number of rows"))
	}
	return g
}

func (r *thriftReader) chunk(typ byte) Chunk {
	c := Chunk{}
	known := false
	r.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			c.Elsewhere = len(r.binary(typ)) > 0
		case 3:
			known = r.columnMeta(&c, typ)
		case 4:
			c.IndexOffset = r.int(typ)
		case 5:
			c.IndexLength = r.int32(typ)
		case 6:
			c.BoundsOffset = r.int(typ)
		case 7:
			c.BoundsLength = r.int32(typ)
		case 8, 9:
			c.Encrypted = true
			r.skip(typ)
		default:
			r.skip(typ)
		}
	})
	if !known && !c.Encrypted {
		r.fail(errors.New("metadata has a column chunk without its description"))
	}
	return c
}

func (r *thriftReader) columnMeta(c *Chunk, typ byte) (whole bool) {
	var seen uint32
	r.structure(typ, func(id int16, typ byte) {
		if id >= 0 && id < 32 {
			seen |= 1 << id
		}
		switch id {
		case 1:
			c.Type = r.int32(typ)
		case 3:
			r.list(typ, func(typ byte) {
				if c.Path != "" {
					c.Path += "."
				}
				c.Path += string(r.binary(typ))
			})
		case 4:
			c.Codec = format.CompressionCodec(r.int32(typ))
		case 5:
			c.Values = r.int(typ)
		case 7:
			c.Compressed = r.int(typ)
		case 9:
			c.DataOffset = r.int(typ)
		case 11:
			c.DictOffset = r.int(typ)
		case 12:
			c.Stats = r.statistics(typ)
		default:
			r.skip(typ)
		}
	})
	const required = 1<<1 | 1<<3 | 1<<4 | 1<<5 | 1<<7 | 1<<9
	return seen&required == required
}

func (r *thriftReader) statistics(typ byte) Statistics {
	var s Statistics
	r.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			s.OldMax = r.binary(typ)
		case 2:
			s.OldMin = r.binary(typ)
		case 3:
			s.Nulls, s.Counted = r.int(typ), true
		case 5:
			s.Max = r.binary(typ)
		case 6:
			s.Min = r.binary(typ)
		default:
			r.skip(typ)
		}
	})
	return s
}

// Location is where a page lies, with its header, and the number of its first row in the row group.
type Location struct {
	Offset int64
	Size   int32
	First  int64
}

// ParseOffsetIndex decodes the list of a chunk's data pages.
func ParseOffsetIndex(b []byte) (pages []Location, err error) {
	r := &thriftReader{b: b}
	r.structure(thriftStruct, func(id int16, typ byte) {
		if id != 1 {
			r.skip(typ)
			return
		}
		r.list(typ, func(typ byte) {
			var p Location
			r.structure(typ, func(id int16, typ byte) {
				switch id {
				case 1:
					p.Offset = r.int(typ)
				case 2:
					p.Size = r.int32(typ)
				case 3:
					p.First = r.int(typ)
				default:
					r.skip(typ)
				}
			})
			pages = append(pages, p)
		})
	})
	return pages, r.err
}

// PageBounds is what a chunk's column index says of its data pages, each list in their order. Bounds are parts of the bytes that were parsed.
type PageBounds struct {
	Empty    []bool // all values are null; the bounds then say nothing
	Min, Max [][]byte
	Nulls    []int64 // may be missing
}

// ParseColumnIndex decodes the bounds of a chunk's data pages. Whether they are as many as there are pages is for the caller.
func ParseColumnIndex(b []byte) (p PageBounds, err error) {
	r := &thriftReader{b: b}
	r.structure(thriftStruct, func(id int16, typ byte) {
		switch id {
		case 1:
			r.list(typ, func(typ byte) { p.Empty = append(p.Empty, r.boolItem(typ)) })
		case 2:
			r.list(typ, func(typ byte) { p.Min = append(p.Min, r.binary(typ)) })
		case 3:
			r.list(typ, func(typ byte) { p.Max = append(p.Max, r.binary(typ)) })
		case 5:
			r.list(typ, func(typ byte) { p.Nulls = append(p.Nulls, r.int(typ)) })
		default:
			r.skip(typ)
		}
	})
	return p, r.err
}

// PageHeader describes a page. Fields of page types other than its own are zero.
type PageHeader struct {
	Type         format.PageType
	Uncompressed int32
	Compressed   int32
	CRC          uint32
	HasCRC       bool
	Described    bool // the structure that belongs to Type was there
	Values       int32
	Encoding     format.Encoding
	DefEncoding  format.Encoding // v1
	Nulls        int32           // v2
	DefLength    int32           // v2
	RepLength    int32           // v2
	PlainValues  bool            // v2: values are not compressed
	Stats        Statistics      // parts of the header's bytes
}

// ParsePage decodes the header at the start of b and returns its length;
// ErrShort asks for more bytes.
func ParsePage(b []byte) (h PageHeader, n int, err error) {
	r := &thriftReader{b: b}
	h.Type = -1
	h.Compressed, h.Uncompressed = -1, -1
	r.structure(thriftStruct, func(id int16, typ byte) {
		switch id {
		case 1:
			h.Type = format.PageType(r.int32(typ))
		case 2:
			h.Uncompressed = r.int32(typ)
		case 3:
			h.Compressed = r.int32(typ)
		case 4:
			h.CRC, h.HasCRC = uint32(r.int32(typ)), true
		case 5:
			r.pageV1(&h, typ)
		case 7:
			r.dictionaryPage(&h, typ)
		case 8:
			r.pageV2(&h, typ)
		default:
			r.skip(typ)
		}
	})
	if r.err != nil {
		return h, 0, r.err
	}
	if h.Compressed < 0 || h.Uncompressed < 0 || h.Values < 0 || h.Nulls < 0 || h.DefLength < 0 || h.RepLength < 0 {
		return h, 0, errors.New("a page header has a size or count that is missing or negative")
	}
	return h, r.pos, nil
}

func (r *thriftReader) pageV1(h *PageHeader, typ byte) {
	h.Described = h.Described || h.Type == format.DataPage
	r.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			h.Values = r.int32(typ)
		case 2:
			h.Encoding = format.Encoding(r.int32(typ))
		case 3:
			h.DefEncoding = format.Encoding(r.int32(typ))
		case 5:
			h.Stats = r.statistics(typ)
		default:
			r.skip(typ)
		}
	})
}

func (r *thriftReader) dictionaryPage(h *PageHeader, typ byte) {
	h.Described = h.Described || h.Type == format.DictionaryPage
	r.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			h.Values = r.int32(typ)
		case 2:
			h.Encoding = format.Encoding(r.int32(typ))
		default:
			r.skip(typ)
		}
	})
}

func (r *thriftReader) pageV2(h *PageHeader, typ byte) {
	h.Described = h.Described || h.Type == format.DataPageV2
	r.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			h.Values = r.int32(typ)
		case 2:
			h.Nulls = r.int32(typ)
		case 4:
			h.Encoding = format.Encoding(r.int32(typ))
		case 5:
			h.DefLength = r.int32(typ)
		case 6:
			h.RepLength = r.int32(typ)
		case 7:
			h.PlainValues = !r.bool(typ)
		case 8:
			h.Stats = r.statistics(typ)
		default:
			r.skip(typ)
		}
	})
}
