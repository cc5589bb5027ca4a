package parquetfile

import (
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go/format"
)

// footer is what is used of a file's metadata. Slices of bytes are parts of the footer as it was read.
type footer struct {
	rows      int64
	createdBy string
	encrypted bool
	schema    []schemaElement
	groups    []rowGroup
}

type schemaElement struct {
	name       string
	typ        int32 // format.Type, or -1
	length     int32
	repetition int32 // format.FieldRepetitionType, or -1
	children   int32
	converted  int32 // deprecated.ConvertedType, or -1
	logical    logicalType
}

// logicalType is the annotation of a column; id 0 means that there is none.
type logicalType struct {
	id     int16
	unit   int16 // of times and timestamps: 1 ms, 2 µs, 3 ns
	utc    bool
	bits   int32 // of integers
	signed bool
}

type rowGroup struct {
	rows   int64
	chunks []chunkMeta
}

type chunkMeta struct {
	elsewhere  bool // in another file
	encrypted  bool
	typ        int32
	path       string // joined by dots
	codec      format.CompressionCodec
	values     int64
	compressed int64
	dataOffset int64
	dictOffset int64
	stats      statistics
}

// statistics are nil where unknown. The old fields are ordered as signed values.
type statistics struct {
	oldMin, oldMax, min, max []byte
	nulls                    int64
	counted                  bool // nulls is known
}

// parseFooter decodes b, all of it.
func parseFooter(b []byte) (*footer, error) {
	f := &footer{rows: -1}
	r := &thriftReader{b: b}
	r.structure(thriftStruct, func(id int16, typ byte) {
		switch id {
		case 2:
			r.list(typ, func(typ byte) { f.schema = append(f.schema, r.schemaElement(typ)) })
		case 3:
			f.rows = r.int(typ)
		case 4:
			r.list(typ, func(typ byte) { f.groups = append(f.groups, r.rowGroup(typ)) })
		case 6:
			f.createdBy = string(r.binary(typ))
		case 8:
			f.encrypted = true
			r.skip(typ)
		default:
			r.skip(typ)
		}
	})
	switch {
	case r.err != nil:
		return nil, r.err
	case f.encrypted:
		return f, nil // a signature follows the structure
	case r.pos != len(b):
		return nil, fmt.Errorf("%d bytes follow the metadata", len(b)-r.pos)
	case len(f.schema) == 0:
		return nil, errors.New("metadata has no schema")
	case f.rows < 0:
		return nil, errors.New("metadata has no valid number of rows")
	}
	return f, nil
}

func (r *thriftReader) schemaElement(typ byte) schemaElement {
	e := schemaElement{typ: -1, repetition: -1, converted: -1}
	named := false
	r.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			e.typ = r.int32(typ)
		case 2:
			e.length = r.int32(typ)
		case 3:
			e.repetition = r.int32(typ)
		case 4:
			e.name, named = string(r.binary(typ)), true
		case 5:
			e.children = r.int32(typ)
		case 6:
			e.converted = r.int32(typ)
		case 10:
			r.structure(typ, func(id int16, typ byte) {
				e.logical.id = id
				r.logical(&e.logical, typ)
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

func (r *thriftReader) logical(l *logicalType, typ byte) {
	switch l.id {
	case logicalTime, logicalTimestamp:
		r.structure(typ, func(id int16, typ byte) {
			switch id {
			case 1:
				l.utc = r.bool(typ)
			case 2:
				r.structure(typ, func(id int16, typ byte) {
					l.unit = id
					r.skip(typ)
				})
			default:
				r.skip(typ)
			}
		})
	case logicalInteger:
		r.structure(typ, func(id int16, typ byte) {
			switch id {
			case 1:
				l.bits = r.int32(typ)
			case 2:
				l.signed = r.bool(typ)
			default:
				r.skip(typ)
			}
		})
	default:
		r.skip(typ)
	}
}

func (r *thriftReader) rowGroup(typ byte) rowGroup {
	g := rowGroup{rows: -1}
	r.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			r.list(typ, func(typ byte) { g.chunks = append(g.chunks, r.chunk(typ)) })
		case 3:
			g.rows = r.int(typ)
		default:
			r.skip(typ)
		}
	})
	if g.rows < 0 {
		r.fail(errors.New("metadata has a row group without a valid number of rows"))
	}
	return g
}

func (r *thriftReader) chunk(typ byte) chunkMeta {
	c := chunkMeta{}
	known := false
	r.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			c.elsewhere = len(r.binary(typ)) > 0
		case 3:
			known = r.columnMeta(&c, typ)
		case 8, 9:
			c.encrypted = true
			r.skip(typ)
		default:
			r.skip(typ)
		}
	})
	if !known && !c.encrypted {
		r.fail(errors.New("metadata has a column chunk without its description"))
	}
	return c
}

func (r *thriftReader) columnMeta(c *chunkMeta, typ byte) (whole bool) {
	var seen uint32
	r.structure(typ, func(id int16, typ byte) {
		if id >= 0 && id < 32 {
			seen |= 1 << id
		}
		switch id {
		case 1:
			c.typ = r.int32(typ)
		case 3:
			r.list(typ, func(typ byte) {
				if c.path != "" {
					c.path += "."
				}
				c.path += string(r.binary(typ))
			})
		case 4:
			c.codec = format.CompressionCodec(r.int32(typ))
		case 5:
			c.values = r.int(typ)
		case 7:
			c.compressed = r.int(typ)
		case 9:
			c.dataOffset = r.int(typ)
		case 11:
			c.dictOffset = r.int(typ)
		case 12:
			r.structure(typ, func(id int16, typ byte) {
				switch id {
				case 1:
					c.stats.oldMax = r.binary(typ)
				case 2:
					c.stats.oldMin = r.binary(typ)
				case 3:
					c.stats.nulls, c.stats.counted = r.int(typ), true
				case 5:
					c.stats.max = r.binary(typ)
				case 6:
					c.stats.min = r.binary(typ)
				default:
					r.skip(typ)
				}
			})
		default:
			r.skip(typ)
		}
	})
	const required = 1<<1 | 1<<3 | 1<<4 | 1<<5 | 1<<7 | 1<<9
	return seen&required == required
}

// pageHeader describes a page. Fields of page types other than its own are zero.
type pageHeader struct {
	typ          format.PageType
	uncompressed int32
	compressed   int32
	crc          uint32
	hasCRC       bool
	described    bool // the structure that belongs to typ was there
	values       int32
	encoding     format.Encoding
	defEncoding  format.Encoding // v1
	nulls        int32           // v2
	defLength    int32           // v2
	repLength    int32           // v2
	plainValues  bool            // v2: values are not compressed
}

// parsePageHeader decodes the header at the start of b and returns its length;
// errThriftShort asks for more bytes.
func parsePageHeader(b []byte) (h pageHeader, n int, err error) {
	r := &thriftReader{b: b}
	h.typ = -1
	h.compressed, h.uncompressed = -1, -1
	r.structure(thriftStruct, func(id int16, typ byte) {
		switch id {
		case 1:
			h.typ = format.PageType(r.int32(typ))
		case 2:
			h.uncompressed = r.int32(typ)
		case 3:
			h.compressed = r.int32(typ)
		case 4:
			h.crc, h.hasCRC = uint32(r.int32(typ)), true
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
	if h.compressed < 0 || h.uncompressed < 0 || h.values < 0 || h.nulls < 0 || h.defLength < 0 || h.repLength < 0 {
		return h, 0, errors.New("a page header has a size or count that is missing or negative")
	}
	return h, r.pos, nil
}

func (r *thriftReader) pageV1(h *pageHeader, typ byte) {
	h.described = h.described || h.typ == format.DataPage
	r.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			h.values = r.int32(typ)
		case 2:
			h.encoding = format.Encoding(r.int32(typ))
		case 3:
			h.defEncoding = format.Encoding(r.int32(typ))
		default:
			r.skip(typ)
		}
	})
}

func (r *thriftReader) dictionaryPage(h *pageHeader, typ byte) {
	h.described = h.described || h.typ == format.DictionaryPage
	r.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			h.values = r.int32(typ)
		case 2:
			h.encoding = format.Encoding(r.int32(typ))
		default:
			r.skip(typ)
		}
	})
}

func (r *thriftReader) pageV2(h *pageHeader, typ byte) {
	h.described = h.described || h.typ == format.DataPageV2
	r.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			h.values = r.int32(typ)
		case 2:
			h.nulls = r.int32(typ)
		case 4:
			h.encoding = format.Encoding(r.int32(typ))
		case 5:
			h.defLength = r.int32(typ)
		case 6:
			h.repLength = r.int32(typ)
		case 7:
			h.plainValues = !r.bool(typ)
		default:
			r.skip(typ)
		}
	})
}
