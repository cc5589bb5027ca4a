package asl

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hindcast/internal/asl/expr"
)

// fields reads the members of one object of a definition and remembers which were asked
// for: done refuses the rest.
type fields struct {
	loader *loader
	path   string
	values map[string]any
	asked  map[string]bool
}

// fields returns a reader of v, which must be an object.
func (l *loader) fields(path string, v any) (*fields, bool) {
	object, ok := v.(map[string]any)
	if !ok {
		l.problem(path, "must be an object")
		return nil, false
	}
	return &fields{l, path, object, map[string]bool{}}, true
}

// problem reports what is wrong with a member, or with the object if name is empty.
func (f *fields) problem(name, format string, args ...any) {
	path := f.path
	if name != "" {
		path += "/" + name
	}
	f.loader.problem(path, format, args...)
}

// jsonata are the fields of the other query language.
var jsonata = map[string]bool{"Arguments": true, "Output": true, "Items": true, "Condition": true}

// done refuses the members that nothing asked for.
func (f *fields) done() {
	for _, name := range slices.Sorted(maps.Keys(f.values)) {
		switch {
		case f.asked[name] || name == "Comment":
		case jsonata[name]:
			f.problem(name, "belongs to JSONata, which is not supported: write the JSONPath form")
		default:
			f.problem(name, "unknown field")
		}
	}
}

// all counts every member as asked for, where the object is refused anyway.
func (f *fields) all() {
	for name := range f.values {
		f.asked[name] = true
	}
}

func (f *fields) has(name string) bool { _, ok := f.values[name]; return ok }

func (f *fields) get(name string) (any, bool) {
	f.asked[name] = true
	v, ok := f.values[name]
	return v, ok
}

// refuse rejects a member that Step Functions knows and this interpreter does not.
func (f *fields) refuse(name, why string) {
	if _, ok := f.get(name); ok {
		f.problem(name, "is not supported: %s", why)
	}
}

func (f *fields) language() {
	if v, ok := f.text("QueryLanguage"); ok && v != "JSONPath" {
		f.problem("QueryLanguage", "%s is not supported: only JSONPath is", v)
	}
}

func (f *fields) text(name string) (string, bool) {
	v, ok := f.get(name)
	if !ok {
		return "", false
	}
	s, ok := v.(string)
	if !ok {
		f.problem(name, "must be a string")
	}
	return s, ok
}

func (f *fields) required(name string) (string, bool) {
	if !f.has(name) {
		f.asked[name] = true
		f.problem(name, "is missing")
		return "", false
	}
	return f.text(name)
}

// oneOf reads a string that has one of a few values.
func (f *fields) oneOf(name string, allowed ...string) (string, bool) {
	s, ok := f.text(name)
	if ok && !slices.Contains(allowed, s) {
		f.problem(name, "is %q: it must be %s", s, strings.Join(allowed, " or "))
		return "", false
	}
	return s, ok
}

func (f *fields) boolean(name string) (value, ok bool) {
	v, ok := f.get(name)
	if !ok {
		return false, false
	}
	b, ok := v.(bool)
	if !ok {
		f.problem(name, "must be true or false")
	}
	return b, ok
}

func (f *fields) integer(name string, low, high int64) (int64, bool) {
	v, ok := f.get(name)
	if !ok {
		return 0, false
	}
	n, ok := v.(json.Number)
	i, whole := int64(0), false
	if ok {
		i, whole = expr.Int(n)
	}
	if !whole || i < low || i > high {
		f.problem(name, "must be a whole number from %d to %d", low, high)
		return 0, false
	}
	return i, true
}

func (f *fields) float(name string, low, high float64) (float64, bool) {
	v, ok := f.get(name)
	if !ok {
		return 0, false
	}
	n, _ := v.(json.Number)
	x, err := n.Float64()
	if err != nil || x < low || x > high {
		f.problem(name, "must be a number from %v to %v", low, high)
		return 0, false
	}
	return x, true
}

func (f *fields) object(name string) (*fields, bool) {
	v, ok := f.get(name)
	if !ok {
		return nil, false
	}
	return f.loader.fields(f.path+"/"+name, v)
}

// objects reads an array of objects.
func (f *fields) objects(name string) ([]*fields, bool) {
	v, ok := f.get(name)
	if !ok {
		return nil, false
	}
	list, ok := v.([]any)
	if !ok {
		f.problem(name, "must be an array")
		return nil, false
	}
	var out []*fields
	for i, v := range list {
		if e, ok := f.loader.fields(fmt.Sprintf("%s/%s/%d", f.path, name, i), v); ok {
			out = append(out, e)
		}
	}
	return out, true
}

func (f *fields) texts(name string) []string {
	v, ok := f.get(name)
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	out := make([]string, 0, len(list))
	for _, v := range list {
		s, isText := v.(string)
		ok = ok && isText
		out = append(out, s)
	}
	if !ok || len(out) == 0 {
		f.problem(name, "must be an array of strings, and not empty")
		return nil
	}
	return out
}

func (f *fields) template(name string) *expr.Template {
	v, ok := f.get(name)
	if !ok {
		return nil
	}
	t, problems := expr.ParseTemplate(v)
	for _, p := range problems {
		f.loader.problem(f.path+"/"+name+p.Path, "%s", p.Text)
	}
	return &t
}

// assign reads Assign: variable names and what they become.
func (f *fields) assign() *expr.Template {
	t := f.template("Assign")
	if t == nil {
		return nil
	}
	names, ok := t.Names()
	if !ok {
		f.problem("Assign", "must be an object")
		return nil
	}
	for _, name := range names {
		if _, err := expr.ParsePath("$" + name); err != nil || strings.ContainsAny(name, "$.[") || name == "" {
			f.problem("Assign/"+name, "is no name of a variable: letters, digits and _, and no digit first")
		}
	}
	return t
}

func (f *fields) pathOf(name string) *expr.Path {
	s, ok := f.text(name)
	if !ok {
		return nil
	}
	p, err := expr.ParsePath(s)
	if err != nil {
		f.problem(name, "%v", err)
		return nil
	}
	return p
}

// inOut reads InputPath or OutputPath; nil stands for "$".
func (f *fields) inOut(name string) *pathField {
	v, ok := f.get(name)
	if !ok {
		return nil
	}
	if v == nil {
		return &pathField{name: name}
	}
	p := f.pathOf(name)
	if p == nil {
		return nil
	}
	return &pathField{path: p, name: name}
}

// resultPath is a ResultPath: where a result goes in the state's input.
type resultPath struct {
	discard bool            // null: the output is the input
	at      *expr.Reference // nil: "$", the output is the result
}

func (f *fields) resultPath() resultPath {
	const name = "ResultPath"
	v, ok := f.get(name)
	if !ok {
		return resultPath{}
	}
	if v == nil {
		return resultPath{discard: true}
	}
	s, ok := v.(string)
	if !ok {
		f.problem(name, "must be a string or null")
		return resultPath{}
	}
	at, err := expr.ParseReference(s)
	if err != nil {
		f.problem(name, "%v", err)
		return resultPath{}
	}
	return resultPath{at: at}
}

// amount is a number that a definition gives by value or by path (Name and NamePath).
type amount struct {
	name  string
	value float64
	set   bool
	path  *expr.Path
}

// given reports whether the definition has it in either form.
func (a *amount) given() bool { return a.set || a.path != nil }

// whole reads an integer by value or by path.
func (f *fields) whole(name string, low, high int64) amount {
	a := amount{name: name}
	if i, ok := f.integer(name, low, high); ok {
		a.value, a.set = float64(i), true
	}
	f.byPath(&a)
	return a
}

func (f *fields) byPath(a *amount) {
	a.path = f.pathOf(a.name + "Path")
	if a.set && a.path != nil {
		f.problem(a.name, "is given by value and by path")
	}
}
