package parquetfile

import (
	"fmt"
	"time"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/parquetfile/column"
	"hindcast/internal/parquetfile/footer"
	"hindcast/internal/record"
)

var logicalNames = map[int16]string{
	1: "STRING", 2: "MAP", 3: "LIST", 4: "ENUM", 5: "DECIMAL", 6: "DATE", 7: "TIME", 8: "TIMESTAMP", 9: "INTERVAL", 10: "INTEGER",
	11: "UNKNOWN", 12: "JSON", 13: "BSON", 14: "UUID", 15: "FLOAT16", 16: "VARIANT", 17: "GEOMETRY", 18: "GEOGRAPHY",
}

// Rule says how a column is read whose file does not say it, or not as its reader wants it. What does not concern a column has no
// effect on it, so that one rule serves files of several writers; but a Scale is refused for what is no decimal.
type Rule struct {
	// Scale is set where decimals are read, as Int64 in units of 10^-Scale: exactly, or not at all. It is 0 to 18.
	Scale *int
	// Zone is where the clocks were whose time is stored in timestamps that are no instants (isAdjustedToUTC=false), or in INT96. A time
	// that they showed twice is the first of the two; one that they never showed is an error.
	Zone *time.Location
	// INT96 has INT96 values read as timestamps: instants, as Spark and Hive write them, unless Zone is set.
	INT96 bool
	// Text has decimals and unsigned 64-bit integers read as String, written out with all their digits: for those that 64 bits do not hold.
	Text bool
}

// Stored is how a file stores a column.
type Stored struct {
	Type       string // the physical type: INT64
	Annotation string // DECIMAL; empty where there is none
	Scale      int    // of decimals
	Precision  int    // of decimals
	Local      bool   // timestamps that are no instants
}

// field is a column of a file: a leaf, by its path where it lies in structures, or what is nested otherwise, whole.
type field struct {
	column.Shape
	name    string
	reason  string // why it cannot be read; the shape is then unset
	leaf    int    // position among a row group's chunks
	nested  bool   // it is no leaf
	within  bool   // it lies in a structure
	maybe   bool   // a structure that it lies in may be null
	logical footer.Logical
}

func (c *field) field() record.Field {
	return record.Field{Name: c.name, Kind: c.Kind, Nullable: c.Level > 0}
}

const (
	maxDepth = 64
	// maxPaths bounds the bytes of paths, which a footer can make quadratic in its length.
	maxPaths = 16 << 20
)

// fields lists the columns of a schema, and the number of leaves.
func fields(schema []footer.Element, rules map[string]Rule) (cols []field, leaves int, err error) {
	w := walk{schema: schema, rules: rules, next: 1, seen: map[string]int{}}
	for range schema[0].Children {
		if w.next >= len(schema) {
			return nil, 0, fmt.Errorf("the schema has %d elements, too few for its root's %d children", len(schema), schema[0].Children)
		}
		if err := w.column(structure{}); err != nil {
			return nil, 0, err
		}
	}
	if w.next != len(schema) {
		return nil, 0, fmt.Errorf("%d schema elements belong to no column", len(schema)-w.next)
	}
	return w.cols, w.leaves, nil
}

// walk goes through a schema, depth first.
type walk struct {
	schema []footer.Element
	rules  map[string]Rule
	next   int // element
	leaves int // passed
	cols   []field
	seen   map[string]int // cols by name
	paths  int            // bytes of names of structures in the columns' paths
}

// structure is what columns lie in.
type structure struct {
	path  string // ends with a dot; empty at the root
	level int    // of definition: how many of the path's structures may be null
	depth int
}

// column adds the column at the next element, or those in it where it is a structure.
func (w *walk) column(in structure) (err error) {
	e := &w.schema[w.next]
	col := field{leaf: w.leaves, name: in.path + e.Name, within: in.depth > 0, maybe: in.level > 0}
	if w.paths += len(in.path); w.paths > maxPaths {
		return fmt.Errorf("the paths of its columns have more than %d bytes", maxPaths)
	}
	repetition := format.FieldRepetitionType(e.Repetition)
	plain := e.Logical.ID == 0 && e.Converted < 0
	if e.Children > 0 && e.Type < 0 && plain && (repetition == format.Required || repetition == format.Optional) {
		in = structure{col.name + ".", in.level, in.depth + 1}
		if repetition == format.Optional {
			in.level++
		}
		if in.depth > maxDepth {
			return fmt.Errorf("column %q nests too deep", e.Name)
		}
		w.next++
		for range e.Children {
			if w.next >= len(w.schema) {
				return fmt.Errorf("the schema ends within column %q", e.Name)
			}
			if err := w.column(in); err != nil {
				return err
			}
		}
		return nil
	}
	first := w.next
	if w.next, w.leaves, err = skipElement(w.schema, w.next, w.leaves, in.depth); err != nil {
		return err
	}
	if w.next > first+1 || e.Type < 0 {
		col.nested = true
		col.reason = "it is nested (a list, map or the like); only single values are read"
	} else {
		flatColumn(&col, e, w.rules[col.name])
		col.Level += in.level
	}
	if i, ok := w.seen[col.name]; ok {
		w.cols[i].reason = "the file has several columns of this name"
		return nil
	}
	w.seen[col.name] = len(w.cols)
	w.cols = append(w.cols, col)
	return nil
}

// skipElement passes over the element at i and those below it.
func skipElement(schema []footer.Element, i, leaves, depth int) (int, int, error) {
	if i >= len(schema) {
		return 0, 0, fmt.Errorf("the schema ends within column %q", schema[len(schema)-1].Name)
	}
	e := &schema[i]
	if depth > maxDepth || e.Children < 0 {
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
func flatColumn(c *field, e *footer.Element, rule Rule) {
	c.Type, c.Length = format.Type(e.Type), int(e.Length)
	c.logical = e.Logical
	if c.logical.ID == 0 {
		c.logical = fromConverted(e)
	}
	switch format.FieldRepetitionType(e.Repetition) {
	case format.Required:
	case format.Optional:
		c.Level = 1
	case format.Repeated:
		c.reason = "it is repeated (a list); only single values are read"
		return
	default:
		c.reason = "its repetition type is unknown"
		return
	}
	if c.logical.ID == footer.Decimal && c.Type != format.Float && c.Type != format.Double && c.Type != format.Boolean {
		decimalColumn(c, rule)
		return
	}
	if rule.Scale != nil {
		c.reason = fmt.Sprintf("a scale is declared for it, but it is no decimal: it is %s", c.described())
		return
	}
	l, ok := &c.logical, false
	plain := l.ID == 0 || l.ID == footer.Null
	switch c.Type {
	case format.Boolean:
		c.Kind, ok = record.Bool, plain
	case format.Int32:
		ok = int32Column(c, l)
	case format.Int64:
		ok = int64Column(c, l, rule.Text)
	case format.Float, format.Double:
		c.Kind, ok = record.Float64, plain
	case format.ByteArray:
		c.Kind = record.String
		switch l.ID {
		case 0, footer.Null, footer.String, footer.Enum, footer.JSON, footer.BSON, footer.Geometry, footer.Geography:
			ok = true
		default: // what the format got since, or will: bytes stay bytes
			ok = l.ID > footer.Geography
		}
	case format.FixedLenByteArray:
		c.Kind, ok = record.String, plain || l.ID == footer.UUID || l.ID == footer.Interval
		if l.ID == footer.Float16 && c.Length == 2 {
			c.Kind, c.Conv, ok = record.Float64, column.FromHalf, true
		}
		if c.Length <= 0 {
			c.reason = fmt.Sprintf("its values have the fixed length %d", c.Length)
		}
	case format.Int96:
		c.Kind, c.Conv, ok = record.Timestamp, column.FromInt96, plain || l.ID == footer.Timestamp
		if c.Zone = rule.Zone; !rule.INT96 {
			c.reason = "it is INT96, by which writers mean a timestamp of no stated zone; declare int96 for the column, and a zone if its clocks " +
				"were not UTC's, or have the exporter write TIMESTAMP(MICROS, UTC)"
		}
	default:
		c.reason = fmt.Sprintf("its physical type %d is unknown", e.Type)
	}
	if ok && c.reason == "" && c.Kind == record.Timestamp && c.Type == format.Int64 && !l.UTC {
		if c.Zone = rule.Zone; c.Zone == nil {
			c.reason = "its timestamps are local times of no stated zone (isAdjustedToUTC=false); declare the column's zone, or have the exporter write instants"
		}
	}
	if !ok && c.reason == "" {
		c.reason = fmt.Sprintf("it is %s, which is not read; cast it in the exporter", c.described())
	}
}

// decimalColumn reads decimals of any physical type as integers of the scale that is declared.
func decimalColumn(c *field, rule Rule) {
	scale := int(c.logical.Scale)
	c.Kind = record.Int64
	switch c.Type {
	case format.Int32, format.Int64:
		c.Conv = column.FromDecimal
	case format.ByteArray, format.FixedLenByteArray:
		c.Conv = column.FromBytes
	}
	switch {
	case c.Conv == column.AsIs || c.Type == format.FixedLenByteArray && c.Length <= 0:
		c.reason = fmt.Sprintf("it is %s, which no decimal is; cast it in the exporter", c.described())
	case rule.Scale != nil && rule.Text:
		c.reason = "both a scale and text are declared for it"
	case scale < 0 || scale > column.MaxScale || c.logical.Precision < 0:
		c.reason = fmt.Sprintf("it is %s, a scale that is not read; cast it in the exporter", c.described())
	case rule.Text:
		c.Kind, c.Scale = record.String, scale
	case rule.Scale == nil:
		c.reason = fmt.Sprintf("it is %s; declare the column's scale to read it as integers of 10^-scale (%d keeps all digits)", c.described(), scale)
	case *rule.Scale < 0 || *rule.Scale > MaxScale:
		c.reason = fmt.Sprintf("the scale %d is declared for it; scales are 0 to %d", *rule.Scale, MaxScale)
	default:
		c.Scale = *rule.Scale - scale
	}
}

// MaxScale is the greatest scale that a [Rule] can declare.
const MaxScale = 18

// described is the column's type in words.
func (c *field) described() string {
	s := c.Type.String()
	if c.Type == format.FixedLenByteArray {
		s += fmt.Sprintf("(%d)", c.Length)
	}
	switch c.logical.ID {
	case 0:
		return s
	case footer.Decimal:
		return fmt.Sprintf("%s annotated as DECIMAL(%d, %d)", s, c.logical.Precision, c.logical.Scale)
	default:
		return s + " annotated as " + c.annotation()
	}
}

func (c *field) annotation() string {
	if c.logical.ID == 0 {
		return ""
	}
	if name := logicalNames[c.logical.ID]; name != "" {
		return name
	}
	return fmt.Sprintf("unknown (%d)", c.logical.ID)
}

func int32Column(c *field, l *footer.Logical) bool {
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
	case footer.Time:
		c.Kind, c.Conv = record.Int64, column.FromMillis
		return l.Unit == 1
	default:
		return false
	}
	return true
}

func int64Column(c *field, l *footer.Logical, text bool) bool {
	switch l.ID {
	case 0, footer.Null:
		c.Kind = record.Int64
	case footer.Integer:
		c.Kind = record.Int64
		if !l.Signed {
			c.Conv = column.FromUint64
			if text {
				c.Kind = record.String
			}
		}
	case footer.Time:
		c.Kind = record.Int64
		if l.Unit == 3 {
			c.Conv = column.FromNanos
		}
		return l.Unit == 2 || l.Unit == 3
	case footer.Timestamp:
		c.Kind = record.Timestamp
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
func fromConverted(e *footer.Element) footer.Logical {
	if e.Converted < 0 {
		return footer.Logical{}
	}
	switch t := deprecated.ConvertedType(e.Converted); t {
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
		return footer.Logical{ID: footer.Decimal, Scale: e.Scale, Precision: e.Precision}
	case deprecated.TimeMillis:
		return footer.Logical{ID: footer.Time, UTC: true, Unit: 1}
	case deprecated.TimeMicros:
		return footer.Logical{ID: footer.Time, UTC: true, Unit: 2}
	case deprecated.Interval:
		return footer.Logical{ID: footer.Interval}
	}
	const null = 24 // of columns that are null throughout, in old files of Arrow
	if e.Converted == null {
		return footer.Logical{ID: footer.Null}
	}
	return footer.Logical{ID: int16(-max(e.Converted, 0) - 1)} // unknown, or of nested columns
}
