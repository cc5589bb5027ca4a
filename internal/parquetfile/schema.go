package parquetfile

import (
	"fmt"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/parquetfile/column"
	"hindcast/internal/parquetfile/footer"
	"hindcast/internal/record"
)

var logicalNames = map[int16]string{
	2: "MAP", 3: "LIST", 5: "DECIMAL", 6: "DATE", 7: "TIME", 8: "TIMESTAMP", 10: "INTEGER", 11: "UNKNOWN", 15: "FLOAT16",
	16: "VARIANT", 17: "GEOMETRY", 18: "GEOGRAPHY",
}

// field is one top-level field of a file.
type field struct {
	column.Shape
	name   string
	reason string // why it cannot be read; the shape is then unset
	leaf   int    // position among a row group's chunks
}

func (c *field) field() record.Field {
	return record.Field{Name: c.name, Kind: c.Kind, Nullable: c.Nullable}
}

// fields lists the top-level fields of a schema and the number of leaves.
func fields(schema []footer.Element) (cols []field, leaves int, err error) {
	next := 1
	seen := map[string]int{}
	for range schema[0].Children {
		if next >= len(schema) {
			return nil, 0, fmt.Errorf("the schema has %d elements, too few for its root's %d children", len(schema), schema[0].Children)
		}
		e := schema[next]
		col := field{leaf: leaves, name: e.Name}
		first := next
		if next, leaves, err = skipElement(schema, next, leaves, 0); err != nil {
			return nil, 0, err
		}
		if next > first+1 || e.Type < 0 {
			col.reason = "it is nested (a structure, list or map); only flat columns are read"
		} else {
			flatColumn(&col, &e)
		}
		if i, ok := seen[e.Name]; ok {
			cols[i].reason = "the file has several columns of this name"
			continue
		}
		seen[e.Name] = len(cols)
		cols = append(cols, col)
	}
	if next != len(schema) {
		return nil, 0, fmt.Errorf("%d schema elements belong to no column", len(schema)-next)
	}
	return cols, leaves, nil
}

// skipElement passes over the element at i and those below it.
func skipElement(schema []footer.Element, i, leaves, depth int) (int, int, error) {
	if i >= len(schema) {
		return 0, 0, fmt.Errorf("the schema ends within column %q", schema[len(schema)-1].Name)
	}
	e := &schema[i]
	if depth > 64 || e.Children < 0 {
		return 0, 0, fmt.Errorf("column %q nests too deep or has a negative number of children", e.Name)
	}
	if e.Children == 0 {
		if e.Type >= 0 {
			leaves++
		}
		return i + 1, leaves, nil
	}
	n := e.Children
	i++
	var err error
	for range n {
		if i, leaves, err = skipElement(schema, i, leaves, depth+1); err != nil {
			return 0, 0, err
		}
	}
	return i, leaves, nil
}

// flatColumn says how a leaf is read, or why it is not.
func flatColumn(c *field, e *footer.Element) {
	switch format.FieldRepetitionType(e.Repetition) {
	case format.Required:
	case format.Optional:
		c.Nullable = true
	case format.Repeated:
		c.reason = "it is repeated (a list); only flat columns are read"
		return
	default:
		c.reason = "its repetition type is unknown"
		return
	}
	c.Type, c.Length = format.Type(e.Type), int(e.Length)
	logical := e.Logical
	if logical.ID == 0 {
		logical = fromConverted(e.Converted)
	}
	ok := false
	switch c.Type {
	case format.Boolean:
		c.Kind, ok = record.Bool, logical.ID == 0
	case format.Int32:
		ok = int32Column(c, logical)
	case format.Int64:
		ok = int64Column(c, logical)
	case format.Float, format.Double:
		c.Kind, ok = record.Float64, logical.ID == 0
	case format.ByteArray:
		c.Kind = record.String
		switch logical.ID {
		case 0, footer.String, footer.Enum, footer.JSON, footer.BSON:
			ok = true
		}
	case format.FixedLenByteArray:
		c.Kind, ok = record.String, logical.ID == 0 || logical.ID == footer.UUID
		if c.Length <= 0 {
			c.reason = fmt.Sprintf("its values have the fixed length %d", c.Length)
		}
	case format.Int96:
		c.reason = "it is an INT96 timestamp, whose zone is not defined; have the exporter write TIMESTAMP(MICROS, UTC)"
	default:
		c.reason = fmt.Sprintf("its physical type %d is unknown", e.Type)
	}
	if !ok && c.reason == "" {
		name := logicalNames[logical.ID]
		if name == "" {
			name = fmt.Sprintf("unknown (%d)", logical.ID)
		}
		c.reason = fmt.Sprintf("it is %v annotated as %s, which is not read; cast it in the exporter", c.Type, name)
	}
}

func int32Column(c *field, l footer.Logical) bool {
	switch l.ID {
	case 0, footer.Null:
		c.Kind = record.Int64
	case footer.Integer:
		c.Kind = record.Int64
		if !l.Signed {
			c.Conv = column.FromUint32
		}
		return l.Bits <= 32
	case footer.Date:
		c.Kind = record.Date
	default:
		return false
	}
	return true
}

func int64Column(c *field, l footer.Logical) bool {
	switch l.ID {
	case 0:
		c.Kind = record.Int64
	case footer.Integer:
		c.Kind = record.Int64
		if !l.Signed {
			c.Conv = column.FromUint64
		}
	case footer.Timestamp:
		c.Kind = record.Timestamp
		if !l.UTC {
			c.reason = "its timestamps are local times of no stated zone (isAdjustedToUTC=false); have the exporter write instants"
			return false
		}
		switch l.Unit {
		case 1:
			c.Conv = column.FromMillis
		case 2:
		case 3:
			c.Conv = column.FromNanos
		default:
			c.reason = "the unit of its timestamps is unknown"
			return false
		}
	default:
		return false
	}
	return true
}

// fromConverted is the logical type that an old annotation stands for. The old
// timestamps are defined as UTC.
func fromConverted(converted int32) footer.Logical {
	if converted < 0 {
		return footer.Logical{}
	}
	switch t := deprecated.ConvertedType(converted); t {
	case deprecated.UTF8:
		return footer.Logical{ID: footer.String}
	case deprecated.Enum:
		return footer.Logical{ID: footer.Enum}
	case deprecated.Json:
		return footer.Logical{ID: footer.JSON}
	case deprecated.Bson:
		return footer.Logical{ID: footer.BSON}
	case deprecated.Date:
		return footer.Logical{ID: footer.Date}
	case deprecated.TimestampMillis:
		return footer.Logical{ID: footer.Timestamp, UTC: true, Unit: 1}
	case deprecated.TimestampMicros:
		return footer.Logical{ID: footer.Timestamp, UTC: true, Unit: 2}
	case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
		return footer.Logical{ID: footer.Integer, Bits: 8 << (t - deprecated.Uint8)}
	case deprecated.Int8, deprecated.Int16, deprecated.Int32, deprecated.Int64:
		return footer.Logical{ID: footer.Integer, Bits: 8 << (t - deprecated.Int8), Signed: true}
	case deprecated.Decimal:
		return footer.Logical{ID: footer.Decimal}
	case deprecated.TimeMillis, deprecated.TimeMicros:
		return footer.Logical{ID: footer.Time}
	}
	return footer.Logical{ID: int16(-converted)} // unknown, or of nested columns
}
