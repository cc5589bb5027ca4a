package spec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"hindcast/internal/unit"
)

// maxFile bounds a job.yaml.
const maxFile = 1 << 20

// Error is one mistake in a job.yaml.
type Error struct {
	File string
	Line int    // from 1
	Path string // of the key, as "source.event.lateness"; empty for the file as a whole
	// Text says what was found and what is expected.
	Text string
}

func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text)
	}
	return fmt.Sprintf("%s:%d: %s: %s", e.File, e.Line, e.Path, e.Text)
}

// decoder reads values by the table of keys, and collects mistakes.
type decoder struct {
	file string
	errs []*Error
}

func (d *decoder) fail(line int, path, format string, args ...any) {
	d.errs = append(d.errs, &Error{d.file, line, path, fmt.Sprintf(format, args...)})
}

// err joins the mistakes in the order of their lines.
func (d *decoder) err() error {
	slices.SortStableFunc(d.errs, func(a, b *Error) int { return a.Line - b.Line })
	errs := make([]error, len(d.errs))
	for i, e := range d.errs {
		errs[i] = e
	}
	return errors.Join(errs...)
}

// parseYAML returns the file's one document.
func parseYAML(file string, b []byte) (root ast.Node, err error) {
	if len(b) > maxFile {
		return nil, &Error{file, 1, "", fmt.Sprintf("the file has %d bytes; a job.yaml has at most %d", len(b), maxFile)}
	}
	defer func() {
		if p := recover(); p != nil { // the library's, on input that it does not expect
			root, err = nil, &Error{file, 1, "", fmt.Sprintf("this is not YAML that can be read (%v)", p)}
		}
	}()
	f, err := parser.ParseBytes(b, 0)
	if err != nil {
		line, text := 1, err.Error()
		var ye yaml.Error
		if errors.As(err, &ye) && ye.GetToken() != nil && ye.GetToken().Position != nil {
			line, text = ye.GetToken().Position.Line, ye.GetMessage()
		}
		return nil, &Error{file, line, "", "this is not YAML: " + text}
	}
	var docs []ast.Node
	for _, doc := range f.Docs {
		if doc.Body != nil {
			docs = append(docs, doc.Body)
		}
	}
	switch {
	case len(docs) == 0:
		return nil, &Error{file, 1, "", "the file is empty; a job.yaml begins with job: NAME"}
	case len(docs) > 1:
		return nil, &Error{file, line(docs[1]), "", "a second document begins here; a job.yaml is one"}
	}
	return docs[0], nil
}

func line(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil && t.Position.Line > 0 {
		return t.Position.Line
	}
	return 1
}

// value is a checked value: of the kind that its key asks for.
type value struct {
	line  int
	path  string
	text  string
	texts []value
	num   int64
	flag  bool
	obj   *object
	list  []*object
	// Of named and pairs: the names in the file's order, and of pairs what they stand for. Those of named are in list.
	names []string
	nodes []ast.Node
}

// object is a mapping whose keys are all known.
type object struct {
	line   int
	path   string
	values map[string]*value // nil for a value that is wrong
}

// has reports whether a key is there, be its value right or wrong.
func (o *object) has(name string) bool {
	if o == nil {
		return false
	}
	_, ok := o.values[name]
	return ok
}

// get returns the value of a key, nil where it is not there or wrong.
func (o *object) get(name string) *value {
	if o == nil {
		return nil
	}
	return o.values[name]
}

// str returns a key's text, or else a default.
func (o *object) str(name, otherwise string) string {
	if v := o.get(name); v != nil {
		return v.text
	}
	return otherwise
}

func (o *object) child(name string) *object {
	if v := o.get(name); v != nil {
		return v.obj
	}
	return nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// object reads a mapping. What is wrong is noted, and left out.
func (d *decoder) object(n ast.Node, path string, keys []key) *object {
	o := &object{line: line(n), path: path, values: map[string]*value{}}
	var pairs []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		var names []string
		for _, k := range keys {
			if k.kind != unbuilt {
				names = append(names, k.name)
			}
		}
		d.fail(line(n), path, "found %s, expected the keys %s", describe(n), strings.Join(names, ", "))
		return o
	}
	seen := map[string]bool{}
	for _, pair := range pairs {
		name, ok := pair.Key.(*ast.StringNode)
		if !ok {
			d.fail(line(pair.Key), path, "found %s as a key; keys are plain words", describe(pair.Key))
			continue
		}
		at := join(path, name.Value)
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == name.Value })
		switch {
		case i < 0:
			d.fail(line(name), at, "unknown key; %s", suggest(name.Value, keys))
		case keys[i].kind == unbuilt:
			d.fail(line(name), at, "not built yet (%s); take the key out", keys[i].doc)
		case seen[name.Value]:
			d.fail(line(name), at, "the key stands here a second time")
		default:
			o.values[name.Value] = d.value(pair.Value, at, line(name), keys[i])
		}
		seen[name.Value] = true
	}
	for _, k := range keys {
		if k.required && !seen[k.name] {
			d.fail(o.line, path, "the key %s is missing: %s", k.name, lowerFirst(k.doc))
		}
	}
	return o
}

// names reads a mapping of names that the user chooses into v; false where it is none.
func (d *decoder) names(n ast.Node, v *value, k key) bool {
	var nodes []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		nodes = n.Values
	case *ast.MappingValueNode:
		nodes = []*ast.MappingValueNode{n}
	}
	for _, pair := range nodes {
		name, ok := pair.Key.(*ast.StringNode)
		switch {
		case !ok:
			d.fail(line(pair.Key), v.path, "found %s as a name; names are plain words, or in quotes", describe(pair.Key))
			continue
		case name.Value == "" || slices.Contains(v.names, name.Value):
			d.fail(line(name), join(v.path, name.Value), "the name is empty, or stands here a second time")
			continue
		}
		v.names = append(v.names, name.Value)
		if k.kind == named {
			v.list = append(v.list, d.object(pair.Value, join(v.path, name.Value), k.keys))
		} else {
			v.nodes = append(v.nodes, pair.Value)
		}
	}
	return len(nodes) > 0
}

// value reads a value of the kind that its key asks for; nil where it is not.
func (d *decoder) value(n ast.Node, path string, at int, k key) *value {
	v := &value{line: line(n), path: path}
	if n.GetToken() == nil || n.Type() == ast.NullType {
		v.line = at
	}
	wrong := func(expected string) *value {
		d.fail(v.line, path, "found %s, expected %s", describe(n), expected)
		return nil
	}
	switch k.kind {
	case mapping:
		v.obj = d.object(n, path, k.keys)
	case named, pairs:
		if !d.names(n, v, k) {
			return wrong("names, each with what it stands for")
		}
	case list:
		seq, ok := n.(*ast.SequenceNode)
		if !ok || len(seq.Values) == 0 {
			return wrong("a list with at least one entry: - " + k.keys[0].name + ": …")
		}
		for i, e := range seq.Values {
			v.list = append(v.list, d.object(e, fmt.Sprintf("%s[%d]", path, i), k.keys))
		}
	case texts:
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			one := d.value(n, path, at, key{kind: text})
			if one == nil {
				return nil
			}
			v.texts = []value{*one}
			break
		}
		for i, e := range seq.Values {
			if one := d.value(e, fmt.Sprintf("%s[%d]", path, i), at, key{kind: text}); one != nil {
				v.texts = append(v.texts, *one)
			}
		}
		if len(seq.Values) == 0 {
			return wrong("a text, or a list with at least one")
		}
	case boolean:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			return wrong("true or false")
		}
		v.flag = b.Value
	case count:
		num, ok := n.(*ast.IntegerNode)
		if !ok {
			return wrong("a whole number, not negative")
		}
		i, err := strconv.ParseInt(num.Token.Value, 10, 64)
		if err != nil || i < 0 {
			return wrong("a whole number, not negative")
		}
		v.num = i
	case share, duration, size:
		// A bare number is an integer node, and no duration or size: its unit is missing.
		s, ok := n.(*ast.StringNode)
		if !ok {
			return wrong(map[kind]string{
				share: "a percentage, as 5%", duration: "a duration with its unit, as 21d, 36h or PT6H", size: "a size with its unit, as 64MB or 1GiB",
			}[k.kind])
		}
		var err error
		switch k.kind {
		case share:
			var p Percent
			p, err = ParsePercent(s.Value)
			v.num = int64(p)
		case duration:
			var dur Duration
			dur, err = ParseDuration(s.Value)
			v.num = int64(dur)
		default:
			var b unit.Bytes
			b, err = unit.ParseBytes(s.Value)
			v.num = int64(b)
		}
		if err != nil {
			d.fail(v.line, path, "%v", err)
			return nil
		}
	case secret:
		s, ok := n.(*ast.StringNode)
		if !ok || !variable.MatchString(s.Value) { // what was found is not repeated: it may be the secret
			d.fail(v.line, path, "found something else than the name of a variable: secrets do not stand in a job.yaml, but in the environment; "+
				"write $KAFKA_%s, or however the variable is called", strings.ToUpper(k.name))
			return nil
		}
		v.text = s.Value
	default:
		switch n := n.(type) {
		case *ast.StringNode:
			v.text = n.Value
		case *ast.LiteralNode:
			v.text = strings.TrimSpace(n.Value.Value)
		default:
			return wrong("a text (numbers and words like true are texts only in quotes)")
		}
		if v.text == "" {
			return wrong("a text")
		}
		if len(k.enum) > 0 && !slices.Contains(k.enum, v.text) {
			if slices.Contains(k.later, v.text) {
				d.fail(v.line, path, "%q is not built yet; expected %s", v.text, oneOf(k.enum))
			} else {
				d.fail(v.line, path, "found %q, expected %s", v.text, oneOf(k.enum))
			}
			return nil
		}
	}
	return v
}

// describe says what a node is, for people.
func describe(n ast.Node) string {
	switch n := n.(type) {
	case *ast.NullNode:
		return "nothing"
	case *ast.StringNode:
		return fmt.Sprintf("the text %q", n.Value)
	case *ast.LiteralNode:
		return "a text of several lines"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + n.GetToken().Value
	case *ast.BoolNode:
		return "the truth value " + n.GetToken().Value
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys and values"
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return "an anchor or alias, which a job.yaml has none of"
	case *ast.TagNode:
		return "a tag, which a job.yaml has none of"
	}
	return "something else"
}

// suggest names the key that was probably meant, or all that there are.
func suggest(name string, keys []key) string {
	best, distance := "", 3
	var names []string
	for _, k := range keys {
		if k.kind == unbuilt {
			continue
		}
		names = append(names, k.name)
		if n := editDistance(strings.ToLower(name), k.name); n < distance && n < len(k.name) {
			best, distance = k.name, n
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return "known here are " + strings.Join(names, ", ")
}

// editDistance counts the letters to insert, delete or replace.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

func lowerFirst(s string) string {
	s = strings.TrimSuffix(s, ".")
	if len(s) > 1 && s[1] >= 'a' && s[1] <= 'z' {
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}

// oneOf writes choices as "a, b or c".
func oneOf(choices []string) string {
	last := len(choices) - 1
	if last < 1 {
		return strings.Join(choices, "")
	}
	return strings.Join(choices[:last], ", ") + " or " + choices[last]
}
