package payload

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"unicode/utf8"

	"github.com/twmb/avro"

	"hindcast/internal/record"
	"hindcast/internal/spec"
)

// wireHeader is the size of what stands before a value whose schema a registry has: a zero byte and the schema's id, big-endian
// (https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format).
const wireHeader = 5

// avroDecoder decodes records, by the schemas that they were written with.
type avroDecoder struct {
	d        *Decoder
	plain    *avroSchema // of all values; nil: they name theirs
	registry *Registry
	byID     map[uint32]*avroSchema
}

// avroSchema is a writer's schema, as far as columns are concerned.
type avroSchema struct {
	schema *avro.Schema
	reason error // why no value of it is read
	fields []avroField
	into   reflect.Value // a pointer to a struct of the fields; it is filled again and again
}

// avroField is a field of a writer's schema that is looked for.
type avroField struct {
	found   int // of the decoder's
	kind    string
	logical string
	scale   int
	reason  error // why it is not read
	schema  string
	value   reflect.Value // in the struct; a pointer where the field may be null
	null    bool          // it always is
}

// avroValue is what a field holds: in the one that its kind has.
type avroValue struct {
	num   int64
	float float64
	bytes []byte
}

// decoding reads the fields that the struct has, without copies: what is decoded is taken out before the next value is.
var decoding = []avro.Opt{avro.SkipUnknown(), avro.AliasInput()}

func newAvro(d *Decoder, opts Options) (*avroDecoder, error) {
	a := &avroDecoder{d: d, registry: opts.Registry, byID: map[uint32]*avroSchema{}}
	switch {
	case opts.Schema != "" && opts.Registry != nil:
		return nil, errors.New("values in Avro have their schema from a registry or from a file, not from both")
	case opts.Schema != "":
		s, err := avro.Parse(opts.Schema)
		if err != nil {
			return nil, fmt.Errorf("source.segments.schema: it is no Avro schema: %w", err)
		}
		if a.plain = a.compile(s, "the schema"); a.plain.reason != nil {
			return nil, fmt.Errorf("source.segments.schema: %w", a.plain.reason)
		}
	case opts.Registry == nil:
		return nil, errors.New("values in Avro need a schema registry or a schema")
	}
	return a, nil
}

func (a *avroDecoder) decode(ctx context.Context, value []byte) (reason, err error) {
	s := a.plain
	if s == nil {
		id, reason := header(value)
		if reason != nil {
			return reason, nil
		}
		if s, err = a.schema(ctx, id); err != nil {
			return nil, err
		}
		value = value[wireHeader:]
	}
	if s.reason != nil {
		return s.reason, nil
	}
	return a.read(s, value), nil
}

// header reads a value's schema id.
func header(value []byte) (uint32, error) {
	switch {
	case len(value) < wireHeader:
		return 0, fmt.Errorf("the value has %d bytes, too few for a schema's id: it is no Avro of a schema registry", len(value))
	case value[0] == '{' || value[0] == '[':
		return 0, errors.New("the value begins as JSON does, and Avro of a schema registry is read: is its format json?")
	case value[0] != 0:
		return 0, fmt.Errorf("the value begins with the byte %d where a schema registry's have 0 and the schema's id: "+
			"if the topic's values bear no id, name their schema in source.segments.schema", value[0])
	}
	return binary.BigEndian.Uint32(value[1:]), nil
}

// schema returns the one that has an id.
func (a *avroDecoder) schema(ctx context.Context, id uint32) (*avroSchema, error) {
	if s, ok := a.byID[id]; ok {
		return s, nil
	}
	what := fmt.Sprintf("schema %d", id)
	parsed, reason, err := a.registry.schema(ctx, id)
	if err != nil {
		return nil, err
	}
	s := &avroSchema{reason: reason}
	if reason == nil {
		s = a.compile(parsed, what)
	}
	a.byID[id] = s
	return s, nil
}

var goTypes = map[string]reflect.Type{
	"boolean": reflect.TypeFor[bool](), "int": reflect.TypeFor[int64](), "long": reflect.TypeFor[int64](),
	"float": reflect.TypeFor[float64](), "double": reflect.TypeFor[float64](),
	"string": reflect.TypeFor[[]byte](), "bytes": reflect.TypeFor[[]byte](), "fixed": reflect.TypeFor[[]byte](),
	"enum": reflect.TypeFor[string](),
}

// compile finds the fields that are columns.
func (a *avroDecoder) compile(schema *avro.Schema, what string) *avroSchema {
	s := &avroSchema{schema: schema}
	root := schema.Root()
	if root.Type != "record" {
		s.reason = fmt.Errorf("%s is %s: only records are events", what, article(root.Type))
		return s
	}
	var into []reflect.StructField
	for i := range root.Fields {
		node := &root.Fields[i].Type
		found, wanted := a.d.fields[root.Fields[i].Name]
		if !wanted {
			continue
		}
		f := avroField{found: found, schema: what}
		var nullable bool
		if nullable, f.reason = f.describe(node); f.reason == nil && !f.null {
			t := goTypes[f.kind]
			if nullable {
				t = reflect.PointerTo(t)
			}
			into = append(into, reflect.StructField{
				Name: fmt.Sprintf("F%d", len(into)), Type: t, Tag: reflect.StructTag(fmt.Sprintf("avro:%q", root.Fields[i].Name)),
			})
		}
		s.fields = append(s.fields, f)
	}
	s.into = reflect.New(reflect.StructOf(into))
	n := 0
	for i := range s.fields {
		if f := &s.fields[i]; f.reason == nil && !f.null {
			f.value = s.into.Elem().Field(n)
			n++
		}
	}
	return s
}

// describe says how a field is read, or why it is not.
func (f *avroField) describe(node *avro.SchemaNode) (nullable bool, reason error) {
	node, err := defined(node)
	if err != nil {
		return false, err
	}
	if node.Type == "union" {
		var some []*avro.SchemaNode
		for i := range node.Branches {
			if node.Branches[i].Type != "null" {
				some = append(some, &node.Branches[i])
			}
		}
		nullable = len(some) < len(node.Branches)
		switch len(some) {
		case 0:
			f.null = true
			return true, nil
		case 1:
			if node, err = defined(some[0]); err != nil {
				return false, err
			}
		default:
			return false, errors.New("it is a union of several types; only one type, or null, is read")
		}
	}
	if node.Type == "null" {
		f.null = true
		return true, nil
	}
	if _, flat := goTypes[node.Type]; !flat {
		return false, fmt.Errorf("it is %s; only flat fields are read", article(node.Type))
	}
	f.kind, f.logical, f.scale = node.Type, node.LogicalType, node.Scale
	return nullable, nil
}

// defined is what a node stands for, which may be a name.
func defined(node *avro.SchemaNode) (*avro.SchemaNode, error) {
	switch node.Type {
	case "null", "boolean", "int", "long", "float", "double", "string", "bytes", "record", "error", "enum", "array", "map", "fixed", "union":
		return node, nil
	}
	s, err := node.Schema()
	if err != nil {
		return nil, fmt.Errorf("its type %s is not defined: %w", node.Type, err)
	}
	return s.Root(), nil
}

// article names a type.
func article(kind string) string {
	switch kind {
	case "int", "array", "enum", "error":
		return "an " + kind
	case "bytes", "":
		return kind
	}
	return "a " + kind
}

// read decodes a record and says which fields it has.
func (a *avroDecoder) read(s *avroSchema, value []byte) (reason error) {
	defer func() {
		if p := recover(); p != nil { // the library's, on bytes that it does not expect
			reason = fmt.Errorf("the value is no record of its schema: %v", p)
		}
	}()
	rest, err := s.schema.Decode(value, s.into.Interface(), decoding...)
	if err != nil {
		return fmt.Errorf("the value is no record of its schema: %w", plainer(err))
	}
	if len(rest) > 0 {
		return fmt.Errorf("the value is no record of its schema: %d bytes follow it", len(rest))
	}
	for i := range s.fields {
		f := &s.fields[i]
		to := &a.d.found[f.found]
		to.set, to.avro, to.null = true, f, f.null
		if f.null || f.reason != nil {
			continue
		}
		v := f.value
		if v.Kind() == reflect.Pointer {
			if to.null = v.IsNil(); to.null {
				continue
			}
			v = v.Elem()
		}
		switch v.Kind() {
		case reflect.Bool:
			to.at.num = 0
			if v.Bool() {
				to.at.num = 1
			}
		case reflect.Int64:
			to.at.num = v.Int()
		case reflect.Float64:
			to.at.float = v.Float()
		case reflect.String:
			to.at.bytes = []byte(v.String())
		default:
			to.at.bytes = v.Bytes()
		}
	}
	return nil
}

// plainer leaves out what the library says of Go's types.
func plainer(err error) error {
	var s *avro.SemanticError
	if errors.As(err, &s) && s.Err != nil {
		if s.Field == "" {
			return s.Err
		}
		const most = 100
		return fmt.Errorf("field %.*s: %w", most, s.Field, s.Err)
	}
	return err
}

// read makes a column's value of a field's: the same, or it says why not.
func (f *avroField) read(c *cell, v avroValue, kind record.Kind, r rule) error {
	if f.reason != nil {
		return fmt.Errorf("%w (%s)", f.reason, f.schema)
	}
	ok := false
	var err error
	switch kind {
	case record.String:
		if ok = f.kind == "enum" || (f.kind == "string" || f.kind == "bytes" || f.kind == "fixed") && f.logical != "decimal"; ok {
			c.text = v.bytes
			if f.kind == "string" && !utf8.Valid(v.bytes) {
				return errNotUTF8
			}
		}
	case record.Bool:
		c.num, ok = v.num, f.kind == "boolean"
	case record.Float64:
		switch f.kind {
		case "float", "double":
			c.float, ok = v.float, true
		case "int":
			c.float, ok = float64(v.num), f.logical == ""
		}
	case record.Int64:
		switch integer := f.kind == "int" || f.kind == "long"; {
		case f.logical == "decimal" && r.Scale == nil:
			return fmt.Errorf("it is a decimal: say in source.event.columns with what scale it is read as an integer (%s)", f.schema)
		case f.logical == "decimal":
			if c.num, err = f.decimal(v.bytes, *r.Scale); err != nil {
				return err
			}
			ok = true
		case r.Scale == nil && !timeOfDay(f.logical):
			c.num, ok = v.num, integer && f.timeUnit() == "" && f.logical != "date"
		}
	case record.Date:
		c.num, ok = v.num, f.kind == "int" && f.logical == "date"
	case record.Timestamp:
		if c.num, ok, err = f.timestamp(v, r); err != nil {
			return err
		}
	}
	if !ok {
		what := article(f.kind)
		if f.logical != "" {
			what += " (" + f.logical + ")"
		}
		return fmt.Errorf("it is %s, expected %s (%s)", what, f.expected(kind, r), f.schema)
	}
	return nil
}

func timeOfDay(logical string) bool { return logical == "time-millis" || logical == "time-micros" }

// timeUnit is what a timestamp counts, whatever its zone; empty for other fields.
func (f *avroField) timeUnit() spec.TimeUnit {
	if f.kind != "long" {
		return ""
	}
	switch f.logical {
	case "timestamp-millis", "local-timestamp-millis":
		return spec.Millis
	case "timestamp-micros", "local-timestamp-micros":
		return spec.Micros
	case "timestamp-nanos", "local-timestamp-nanos":
		return spec.Nanos
	}
	return ""
}

func (f *avroField) timestamp(v avroValue, r rule) (int64, bool, error) {
	unit := f.timeUnit()
	local := len(f.logical) > 6 && f.logical[:6] == "local-"
	switch {
	case f.kind == "string" && f.logical == "":
		return r.zone.timestamp(string(v.bytes))
	case f.kind == "int" && f.logical == "date" && r.zone != nil:
		at, err := r.zone.Midnight(v.num)
		return at, err == nil, err
	case unit == "" && r.Unit != "" && (f.kind == "int" || f.kind == "long") && f.logical == "":
		unit = r.Unit
	case unit == "" || local && r.zone == nil:
		return 0, false, nil
	}
	at, ok := fromUnit(v.num, unit)
	if !ok {
		return 0, false, fmt.Errorf("the time %d %s is beyond any calendar", v.num, unit)
	}
	if local {
		at, err := r.zone.Instant(at)
		return at, err == nil, err
	}
	return at, true, nil
}

// decimal reads a decimal as an integer in units of 10^-to.
func (f *avroField) decimal(b []byte, to int) (int64, error) {
	for len(b) > 8 && (b[0] == 0 && b[1] < 0x80 || b[0] == 0xff && b[1] >= 0x80) {
		b = b[1:] // which only repeats the sign
	}
	v := int64(0)
	if len(b) > 0 && b[0] >= 0x80 {
		v = -1
	}
	for _, x := range b[:min(len(b), 8)] {
		v = v<<8 | int64(x)
	}
	ok := len(b) <= 8 && f.scale <= math.MaxInt16
	if ok {
		v, ok = rescale(v, f.scale, to)
	}
	if !ok {
		return 0, fmt.Errorf("its value, a decimal of scale %d, does not fit an integer of 64 bits with scale %d exactly", f.scale, to)
	}
	return v, nil
}

// expected says what fields are read as a column.
func (f *avroField) expected(kind record.Kind, r rule) string {
	switch kind {
	case record.String:
		return "a string, bytes, a fixed or an enum"
	case record.Bool:
		return "a boolean"
	case record.Float64:
		return "a float, a double or an int: a long may have more digits than fit"
	case record.Date:
		return "a date"
	case record.Timestamp:
		what := "a timestamp"
		if r.zone == nil {
			what += " (zone in source.event.columns allows local ones and dates)"
		}
		if r.Unit == "" {
			what += " (unit allows integers)"
		}
		return what
	default:
		if r.Scale != nil {
			return "a decimal, as the column's scale says"
		}
		return "an int or a long"
	}
}
