package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"hindcast/internal/partition"
)

// Avro is one record in Avro's binary encoding, whose fields are the event's columns.
const Avro ValueFormat = "avro"

// Value says that exported events are encoded in one column, not spread over columns of their own.
type Value struct {
	// Column holds the encoded event: byte strings.
	Column string      `json:"column"`
	Format ValueFormat `json:"format"`
}

// Column says how one column of the event is read where its name and type do not tell.
type Column struct {
	// Aliases are names that the column had before. Of its names an event has one.
	Aliases []string `json:"aliases,omitempty"`
	// Scale, where not nil, reads decimals as integers in units of 10^-Scale, exactly or not at all.
	Scale *int `json:"scale,omitempty"`
	// Zone is that of times without one: wall-clock timestamps, and dates that are read as timestamps.
	Zone string `json:"zone,omitempty"`
	// Unit, where not empty, reads integers as that many units since 1970-01-01T00:00:00Z.
	Unit TimeUnit `json:"unit,omitempty"`
	// INT96 reads Parquet's INT96 timestamps: as instants, or in Zone where that is set.
	INT96 bool `json:"int96,omitempty"`
}

// TimeUnit is what an integer counts that stands for a time.
type TimeUnit string

// The units.
const (
	Seconds TimeUnit = "s"
	Millis  TimeUnit = "ms"
	Micros  TimeUnit = "us"
	Nanos   TimeUnit = "ns"
)

// Upcast makes an older event look like a current one. An event's upcasts are applied in their order: each first renames, then multiplies, then fills in what is missing.
type Upcast struct {
	// By is the integer column that has an event's version. An event whose By is below Below, or that has none, is upcast;
	// with By empty every event is.
	By    string `json:"by,omitempty"`
	Below int64  `json:"below,omitempty"`
	// Rename gives old names their new ones.
	Rename map[string]string `json:"rename,omitempty"`
	// Default has the values, as JSON, of columns that an event lacks. A column that is there and null stays null.
	Default map[string]json.RawMessage `json:"default,omitempty"`
	// Multiply has factors of integer columns, whose unit was another one.
	Multiply map[string]int64 `json:"multiply,omitempty"`
}

// maxScale is the greatest one whose unit fits 64 bits.
const maxScale = 18

func valueKeys() []key {
	return []key{
		{name: "column", kind: text, doc: "The column that holds the events' bytes. Tiered segments have none."},
		{name: "format", kind: text, enum: []string{string(JSON), string(Avro)}, doc: "How they are encoded. Default: json."},
	}
}

func columnKeys() []key {
	return []key{
		{name: "aliases", kind: texts, doc: "Names that the column had before; in exports also the path of one in structures, as order.amount. An event has one of its names, never two."},
		{name: "scale", kind: count, doc: "Reads decimals as integers, with as many digits behind the point: 12.5 with scale 3 is 12500. What does not fit exactly is refused."},
		{name: "zone", kind: text, doc: "The IANA zone of timestamps that state none (UTC flag off, no offset), and of dates that are read as timestamps. Of a time that its clocks show twice the first is meant."},
		{
			name: "unit", kind: text, enum: []string{string(Seconds), string(Millis), string(Micros), string(Nanos)},
			doc: "Reads plain integers as timestamps: that many s, ms, us or ns since 1970 in UTC.",
		},
		{name: "int96", kind: boolean, doc: "true reads Parquet's INT96 timestamps: as instants in UTC, or in zone where that is set."},
	}
}

func upcastKeys() []key {
	return []key{
		{name: "by", kind: text, doc: "The integer column that has an event's version; without it every event is upcast."},
		{name: "below", kind: count, doc: "Upcasts events whose version is below this one, and those that have none."},
		{name: "rename", kind: pairs, doc: "Old names and their new ones, as {price: unit_price}."},
		{name: "default", kind: pairs, doc: "Values of columns that an event lacks, as {currency: GBP}. A null stays null."},
		{name: "multiply", kind: pairs, doc: "Factors of integer columns that were in another unit, as {unit_price: 10}. Columns have their new names here and in default."},
	}
}

var avroFile = regexp.MustCompile(`^[^\\]+\.(avsc|json)$`)

// payload reads how events are encoded that do not lie in columns of their own.
func (d *decoder) payload(s *Source, seg, tail *object) {
	if v := seg.child("value"); v != nil && s.Segments.Tiered == nil {
		if !v.has("column") {
			d.fail(v.line, v.path, "the key column is missing: the column that holds the events' bytes")
		}
		s.Segments.Value = &Value{Column: v.str("column", ""), Format: ValueFormat(v.str("format", string(JSON)))}
		if c, k := v.get("column"), s.Segments.Columns; c != nil && slices.Contains([]string{k.Partition, k.Offset, k.Time}, c.text) {
			d.fail(c.line, c.path, "the column %s cannot hold the event as well: it is one of Kafka's own", c.text)
		}
	}
	s.Segments.Registry, s.Segments.Schema = seg.str("registry", ""), seg.str("schema", "")
	registry, schema := seg.get("registry"), seg.get("schema")
	if registry != nil {
		d.registry(registry)
	}
	if schema != nil && (!avroFile.MatchString(schema.text) || path.IsAbs(schema.text) || slices.Contains(strings.Split(schema.text, "/"), "..")) {
		d.fail(schema.line, schema.path, "found %q, expected an .avsc file in the job's folder", schema.text)
	}
	var avro *value // the key that asks for Avro
	if s.Tail != nil && s.Tail.Value == Avro {
		avro = tail.get("value")
	}
	if s.Segments.Value != nil && s.Segments.Value.Format == Avro {
		avro = seg.child("value").get("format")
	}
	if t := s.Segments.Tiered; t != nil && t.Value == Avro && avro == nil {
		avro = seg.child("value").get("format")
	}
	switch {
	case seg.has("registry") && seg.has("schema"):
		d.fail(seg.line, seg.path, "values have their schema from a registry or from a file: give registry or schema, not both")
	case avro == nil && schema != nil:
		d.fail(schema.line, schema.path, "it has no effect: no value is read as avro")
	case avro == nil && registry != nil:
		d.fail(registry.line, registry.path, "it has no effect: no value is read as avro")
	case avro != nil && !seg.has("registry") && !seg.has("schema"):
		d.fail(avro.line, avro.path, "Avro needs the schema that values were written with: name the schema registry in source.segments.registry, "+
			"or, for values that bear no schema id, an .avsc file of the job's folder in source.segments.schema")
	}
}

// registry checks the address of a schema registry. What may hold a password is not repeated.
func (d *decoder) registry(v *value) {
	before, _, hasUser := strings.Cut(v.text, "@")
	_, user, _ := strings.Cut(before, "://")
	_, password, hasPassword := strings.Cut(user, ":")
	switch {
	case hasUser && hasPassword && !strings.HasPrefix(password, "$"):
		d.fail(v.line, v.path, "a password does not belong into a job.yaml: name variables of the environment, as https://$REGISTRY_USER:$REGISTRY_PASSWORD@HOST")
	case !strings.HasPrefix(v.text, "http://") && !strings.HasPrefix(v.text, "https://") && !strings.HasPrefix(v.text, "$"):
		d.fail(v.line, v.path, "expected an http:// or https:// URL")
	}
}

// columns reads event.columns.
func (d *decoder) columns(o *object) map[string]Column {
	v := o.get("columns")
	if v == nil {
		return nil
	}
	out := map[string]Column{}
	owner := map[string]string{} // of a name
	for _, name := range v.names {
		owner[name] = name
	}
	for i, name := range v.names {
		c := v.list[i]
		rule := Column{Zone: c.str("zone", ""), Unit: TimeUnit(c.str("unit", ""))}
		if a := c.get("aliases"); a != nil {
			for _, t := range a.texts {
				if of, taken := owner[t.text]; taken {
					d.fail(t.line, t.path, "the name %s is already that of the column %s", t.text, of)
					continue
				}
				owner[t.text] = name
				rule.Aliases = append(rule.Aliases, t.text)
			}
		}
		if n := c.get("scale"); n != nil {
			if n.num > maxScale {
				d.fail(n.line, n.path, "found %d, expected at most %d digits: integers have 64 bits", n.num, maxScale)
			}
			scale := int(min(n.num, maxScale))
			rule.Scale = &scale
		}
		if z := c.get("zone"); z != nil {
			if _, err := partition.LoadZone(z.text); err != nil {
				d.fail(z.line, z.path, "%v", err)
			}
		}
		if b := c.get("int96"); b != nil {
			rule.INT96 = b.flag
		}
		if c.has("scale") && (c.has("zone") || c.has("unit") || c.has("int96")) {
			d.fail(c.line, c.path, "scale is for decimals; zone, unit and int96 are for times: a column is one of them")
		}
		if len(c.values) == 0 {
			d.fail(c.line, c.path, "it says nothing; known here are aliases, scale, zone, unit, int96")
		}
		out[name] = rule
	}
	return out
}

// upcasts reads event.upcast.
func (d *decoder) upcasts(o *object) []Upcast {
	v := o.get("upcast")
	if v == nil {
		return nil
	}
	var out []Upcast
	by := ""
	for _, u := range v.list {
		up := Upcast{By: u.str("by", "")}
		switch n := u.get("below"); {
		case u.has("below") != u.has("by"):
			d.fail(u.line, u.path, "by and below belong together: events are upcast whose version, in the column by, is below that number")
		case n != nil && n.num < 1:
			d.fail(n.line, n.path, "found 0, expected at least 1: no version is below it")
		case n != nil:
			up.Below = n.num
		}
		if b := u.get("by"); b != nil {
			if by != "" && b.text != by {
				d.fail(b.line, b.path, "found %s, but an upcast before it goes by %s: an event has one version", b.text, by)
			}
			by = b.text
		}
		up.Rename = d.renames(u.get("rename"))
		up.Default = d.defaults(u.get("default"))
		up.Multiply = d.factors(u.get("multiply"))
		if !u.has("rename") && !u.has("default") && !u.has("multiply") {
			d.fail(u.line, u.path, "it changes nothing: give rename, default or multiply")
		}
		out = append(out, up)
	}
	return out
}

func (d *decoder) renames(v *value) map[string]string {
	if v == nil {
		return nil
	}
	out := map[string]string{}
	for i, old := range v.names {
		name, ok := v.nodes[i].(*ast.StringNode)
		switch {
		case !ok:
			d.fail(line(v.nodes[i]), join(v.path, old), "found %s, expected the new name", describe(v.nodes[i]))
		case name.Value == old:
			d.fail(line(name), join(v.path, old), "the new name is the old one")
		case slices.Contains(slices.Collect(maps.Values(out)), name.Value):
			d.fail(line(name), join(v.path, old), "two columns cannot both become %s", name.Value)
		default:
			out[old] = name.Value
		}
	}
	return out
}

func (d *decoder) defaults(v *value) map[string]json.RawMessage {
	if v == nil {
		return nil
	}
	out := map[string]json.RawMessage{}
	for i, name := range v.names {
		n := v.nodes[i]
		var b []byte
		switch n := n.(type) {
		case *ast.StringNode:
			b, _ = json.Marshal(n.Value) // a string always can
		case *ast.BoolNode:
			b, _ = json.Marshal(n.Value)
		case *ast.IntegerNode, *ast.FloatNode:
			if t := n.GetToken().Value; json.Valid([]byte(t)) {
				b = []byte(t)
			}
		}
		if b == nil {
			d.fail(line(n), join(v.path, name), "found %s, expected a text, a plain number, true or false", describe(n))
			continue
		}
		out[name] = b
	}
	return out
}

func (d *decoder) factors(v *value) map[string]int64 {
	if v == nil {
		return nil
	}
	out := map[string]int64{}
	for i, name := range v.names {
		f := d.value(v.nodes[i], join(v.path, name), v.line, key{kind: count})
		switch {
		case f == nil:
		case f.num < 2:
			d.fail(f.line, f.path, "found %d, expected a factor of at least 2", f.num)
		default:
			out[name] = f.num
		}
	}
	return out
}

// RegistryURL returns the schema registry's address, with $NAMES expanded by lookup, which is usually [os.LookupEnv].
// It is empty where the job has none.
func (s Segments) RegistryURL(lookup func(string) (string, bool)) (string, error) {
	const key, what = "source.segments.registry", "the registry's address, or its user or password"
	before, after, hasUser := strings.Cut(s.Registry, "@")
	if !hasUser {
		return expandEnv(key, what, s.Registry, lookup)
	}
	before, err := expandEnv(key, what, before, func(name string) (string, bool) {
		v, ok := lookup(name) // any character may be in it
		return strings.ReplaceAll(url.QueryEscape(v), "+", "%20"), ok
	})
	if err != nil {
		return "", err
	}
	after, err = expandEnv(key, what, after, lookup)
	return before + "@" + after, err
}

// expandEnv replaces $NAMES of the environment in the value of a key.
func expandEnv(key, what, text string, lookup func(string) (string, bool)) (string, error) {
	out, err := Expand(text, lookup)
	if err != nil {
		return "", fmt.Errorf("%s is %s, but %w to %s", key, text, err, what)
	}
	return out, nil
}
