package parquetfile

import (
	"fmt"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/record"
)

// Ids of logical types in a schema element.
const (
	logicalString    = 1
	logicalEnum      = 4
	logicalDate      = 6
	logicalTime      = 7
	logicalTimestamp = 8
	logicalInteger   = 10
	logicalNull      = 11
	logicalJSON      = 12
	logicalBSON      = 13
	logicalUUID      = 14
)

var logicalNames = map[int16]string{
	2: "MAP", 3: "LIST", 5: "DECIMAL", 6: "DATE", 7: "TIME", 8: "TIMESTAMP", 10: "INTEGER", 11: "UNKNOWN", 15: "FLOAT16",
	16: "VARIANT", 17: "GEOMETRY", 18: "GEOGRAPHY",
}

// conversion is what is done to a stored integer.
type conversion uint8

const (
	asIs       conversion = iota
	fromMillis            // to microseconds
	fromNanos             // to microseconds, floored
	fromUint32            // stored as a signed integer
	fromUint64            // refused past the range of int64
)

// column is one top-level field of a file.
type column struct {
	field  record.Field
	reason string // why it cannot be read; the rest is then unset, but for field.Name
	leaf   int    // position among a row group's chunks
	typ    format.Type
	length int // of FIXED_LEN_BYTE_ARRAY
	conv   conversion
}

// columns lists the top-level fields of a schema and the number of leaves.
func columns(schema []schemaElement) (cols []column, leaves int, err error) {
	next := 1
	seen := map[string]int{}
	for range schema[0].children {
		if next >= len(schema) {
			return nil, 0, fmt.Errorf("the schema has %d elements, too few for its root's %d children", len(schema), schema[0].children)
		}
		e := schema[next]
		col := column{leaf: leaves, field: record.Field{Name: e.name}}
		first := next
		if next, leaves, err = skipElement(schema, next, leaves, 0); err != nil {
			return nil, 0, err
		}
		if next > first+1 || e.typ < 0 {
			col.reason = "it is nested (a structure, list or map); only flat columns are read"
		} else {
			flatColumn(&col, &e)
		}
		if i, ok := seen[e.name]; ok {
			cols[i].reason = "the file has several columns of this name"
			continue
		}
		seen[e.name] = len(cols)
		cols = append(cols, col)
	}
	if next != len(schema) {
		return nil, 0, fmt.Errorf("%d schema elements belong to no column", len(schema)-next)
	}
	return cols, leaves, nil
}

// skipElement passes over the element at i and those below it.
func skipElement(schema []schemaElement, i, leaves, depth int) (int, int, error) {
	if i >= len(schema) {
		return 0, 0, fmt.Errorf("the schema ends within column %q", schema[len(schema)-1].name)
	}
	e := &schema[i]
	if depth > 64 || e.children < 0 {
		return 0, 0, fmt.Errorf("column %q nests too deep or has a negative number of children", e.name)
	}
	if e.children == 0 {
		if e.typ >= 0 {
			leaves++
		}
		return i + 1, leaves, nil
	}
	n := e.children
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
func flatColumn(c *column, e *schemaElement) {
	switch format.FieldRepetitionType(e.repetition) {
	case format.Required:
	case format.Optional:
		c.field.Nullable = true
	case format.Repeated:
		c.reason = "it is repeated (a list); only flat columns are read"
		return
	default:
		c.reason = "its repetition type is unknown"
		return
	}
	c.typ, c.length = format.Type(e.typ), int(e.length)
	logical := e.logical
	if logical.id == 0 {
		logical = fromConverted(e.converted)
	}
	ok := false
	switch c.typ {
	case format.Boolean:
		c.field.Kind, ok = record.Bool, logical.id == 0
	case format.Int32:
		ok = int32Column(c, logical)
	case format.Int64:
		ok = int64Column(c, logical)
	case format.Float, format.Double:
		c.field.Kind, ok = record.Float64, logical.id == 0
	case format.ByteArray:
		c.field.Kind = record.String
		switch logical.id {
		case 0, logicalString, logicalEnum, logicalJSON, logicalBSON:
			ok = true
		}
	case format.FixedLenByteArray:
		c.field.Kind, ok = record.String, logical.id == 0 || logical.id == logicalUUID
		if c.length <= 0 {
			c.reason = fmt.Sprintf("its values have the fixed length %d", c.length)
		}
	case format.Int96:
		c.reason = "it is an INT96 timestamp, whose zone is not defined; have the exporter write TIMESTAMP(MICROS, UTC)"
	default:
		c.reason = fmt.Sprintf("its physical type %d is unknown", e.typ)
	}
	if !ok && c.reason == "" {
		name := logicalNames[logical.id]
		if name == "" {
			name = fmt.Sprintf("unknown (%d)", logical.id)
		}
		c.reason = fmt.Sprintf("it is %v annotated as %s, which is not read; cast it in the exporter", c.typ, name)
	}
}

func int32Column(c *column, l logicalType) bool {
	switch l.id {
	case 0, logicalNull:
		c.field.Kind = record.Int64
	case logicalInteger:
		c.field.Kind = record.Int64
		if !l.signed {
			c.conv = fromUint32
		}
		return l.bits <= 32
	case logicalDate:
		c.field.Kind = record.Date
	default:
		return false
	}
	return true
}

func int64Column(c *column, l logicalType) bool {
	switch l.id {
	case 0:
		c.field.Kind = record.Int64
	case logicalInteger:
		c.field.Kind = record.Int64
		if !l.signed {
			c.conv = fromUint64
		}
	case logicalTimestamp:
		c.field.Kind = record.Timestamp
		if !l.utc {
			c.reason = "its timestamps are local times of no stated zone (isAdjustedToUTC=false); have the exporter write instants"
			return false
		}
		switch l.unit {
		case 1:
			c.conv = fromMillis
		case 2:
		case 3:
			c.conv = fromNanos
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
func fromConverted(converted int32) logicalType {
	if converted < 0 {
		return logicalType{}
	}
	switch t := deprecated.ConvertedType(converted); t {
	case deprecated.UTF8:
		return logicalType{id: logicalString}
	case deprecated.Enum:
		return logicalType{id: logicalEnum}
	case deprecated.Json:
		return logicalType{id: logicalJSON}
	case deprecated.Bson:
		return logicalType{id: logicalBSON}
	case deprecated.Date:
		return logicalType{id: logicalDate}
	case deprecated.TimestampMillis:
		return logicalType{id: logicalTimestamp, utc: true, unit: 1}
	case deprecated.TimestampMicros:
		return logicalType{id: logicalTimestamp, utc: true, unit: 2}
	case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
		return logicalType{id: logicalInteger, bits: 8 << (t - deprecated.Uint8)}
	case deprecated.Int8, deprecated.Int16, deprecated.Int32, deprecated.Int64:
		return logicalType{id: logicalInteger, bits: 8 << (t - deprecated.Int8), signed: true}
	case deprecated.Decimal:
		return logicalType{id: 5}
	case deprecated.TimeMillis, deprecated.TimeMicros:
		return logicalType{id: logicalTime}
	}
	return logicalType{id: int16(-converted)} // unknown, or of nested columns
}
