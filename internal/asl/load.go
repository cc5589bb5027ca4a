package asl

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"hindcast/internal/asl/expr"
)

// Machine is a state machine that was loaded. It does not change and may be shared.
type Machine struct {
	// Name is the machine's name in ARNs and in the context object.
	Name string
	// SHA256 is the digest of the definition after substitution, in hexadecimal.
	SHA256 string

	top     *scope
	timeout int64             // seconds for the whole execution; 0: none
	paths   map[string]string // of states, by their names
}

// Problem is one thing that is wrong in a definition.
type Problem struct {
	Path string // as /States/Plan/Retry/0/MaxAttempts
	Text string
}

// DefinitionError lists everything that [Parse] found wrong.
type DefinitionError struct{ Problems []Problem }

// Error has a line for each problem.
func (e *DefinitionError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "state machine definition: %d problem(s)", len(e.Problems))
	for _, p := range e.Problems {
		fmt.Fprintf(&b, "\n%s: %s", cmp.Or(p.Path, "/"), p.Text)
	}
	return b.String()
}

// Parse loads a definition. As SAM's DefinitionSubstitutions do, each ${Name} in a string
// is replaced by the value that substitutions has for it. Everything that is unknown,
// unsupported or inconsistent is refused: the error is a [DefinitionError] with all of it.
// The machine's Name is "hindcast" until the caller sets another.
func Parse(definition []byte, substitutions map[string]string) (*Machine, error) {
	l := &loader{substitutions: substitutions, used: map[string]bool{}, names: map[string]string{}}
	doc, err := l.decode(definition)
	if err != nil {
		return nil, &DefinitionError{[]Problem{{"", err.Error()}}}
	}
	m := &Machine{Name: "hindcast"}
	if f, ok := l.fields("", doc); ok {
		if v, ok := f.text("Version"); ok && v != "1.0" {
			f.problem("Version", "the version is 1.0, not %q", v)
		}
		m.timeout, _ = f.integer("TimeoutSeconds", 1, maxSeconds)
		m.top = l.scope(f)
		f.done()
	}
	for _, name := range slices.Sorted(maps.Keys(substitutions)) {
		if !l.used[name] {
			l.problem("", "there is no ${%s} to substitute", name)
		}
	}
	if len(l.problems) > 0 {
		return nil, &DefinitionError{l.problems}
	}
	// The digest is of what is run: layout does not count, substituted values do.
	canonical, err := expr.Encode(doc)
	if err != nil {
		return nil, err
	}
	m.paths = l.names
	sum := sha256.Sum256(canonical)
	m.SHA256 = hex.EncodeToString(sum[:])
	return m, nil
}

// Resources returns the resources that the machine's Task states name, sorted, each once.
func (m *Machine) Resources() []string {
	found := map[string]bool{}
	m.top.walk(func(st state) {
		if t, ok := st.(*taskState); ok {
			found[t.resource] = true
			if name, ok := t.parameters.Static("FunctionName"); ok {
				found[fmt.Sprint(name)] = true
			}
		}
	})
	return slices.Sorted(maps.Keys(found))
}

// Limits of the language.
const (
	maxSeconds  = 99_999_999
	maxNameSize = 80
)

// scope is what StartAt and States belong to: the machine, a branch or a processor.
type scope struct {
	startAt string
	states  map[string]state
}

// walk visits all states, those of branches and processors included.
func (sc *scope) walk(visit func(state)) {
	for _, name := range slices.Sorted(maps.Keys(sc.states)) {
		st := sc.states[name]
		visit(st)
		for _, inner := range st.scopes() {
			inner.walk(visit)
		}
	}
}

// common is what all states have.
type common struct {
	name     string
	kind     string // the state's Type
	next     string // empty: the state ends its scope
	input    *pathField
	output   *pathField
	assign   *expr.Template
	terminal bool // Succeed and Fail: they have neither Next nor End
}

func (c *common) base() *common    { return c }
func (c *common) scopes() []*scope { return nil }

// pathField is InputPath or OutputPath.
type pathField struct {
	path *expr.Path // nil: the path is null, and the value {}
	name string
}

type loader struct {
	substitutions map[string]string
	used          map[string]bool
	names         map[string]string // state name → path, to find duplicates
	problems      []Problem
}

func (l *loader) problem(path, format string, args ...any) {
	l.problems = append(l.problems, Problem{path, fmt.Sprintf(format, args...)})
}

var placeholder = regexp.MustCompile(`\$\{([A-Za-z0-9_.:-]*)\}`)

// decode parses JSON like expr.Decode, but refuses duplicate names and substitutes.
func (l *loader) decode(b []byte) (any, error) {
	if !utf8.Valid(b) {
		return nil, errors.New("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	v, err := l.value(dec, "")
	if errors.Is(err, io.EOF) {
		err = errors.New("the definition ends here, within a value")
	}
	if err != nil {
		return nil, fmt.Errorf("at byte %d: %w", dec.InputOffset(), err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("at byte %d: something follows the definition", dec.InputOffset())
	}
	return v, nil
}

func (l *loader) value(dec *json.Decoder, path string) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '[' {
			list := []any{}
			for dec.More() {
				v, err := l.value(dec, fmt.Sprintf("%s/%d", path, len(list)))
				if err != nil {
					return nil, err
				}
				list = append(list, v)
			}
			_, err := dec.Token()
			return list, err
		}
		object := map[string]any{}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			name, _ := key.(string)
			at := path + "/" + name
			v, err := l.value(dec, at)
			if err != nil {
				return nil, err
			}
			if _, twice := object[name]; twice {
				l.problem(at, "there are two of this name")
			}
			object[name] = v
		}
		_, err := dec.Token()
		return object, err
	case string:
		return placeholder.ReplaceAllStringFunc(t, func(s string) string {
			name := s[2 : len(s)-1]
			value, ok := l.substitutions[name]
			if !ok {
				l.problem(path, "no substitution is given for %s", s)
				return s
			}
			l.used[name] = true
			return value
		}), nil
	}
	return token, nil
}

// scope loads StartAt and States of a machine, a branch or a processor.
func (l *loader) scope(f *fields) *scope {
	sc := &scope{states: map[string]state{}}
	f.language()
	sc.startAt, _ = f.required("StartAt")
	states, ok := f.object("States")
	if !ok {
		if !f.has("States") {
			f.problem("States", "is missing")
		}
		return sc
	}
	for _, name := range slices.Sorted(maps.Keys(states.values)) {
		at := states.path + "/" + name
		if n := utf8.RuneCountInString(name); n == 0 || n > maxNameSize {
			l.problem(at, "a state's name has 1 to %d characters", maxNameSize)
		}
		if first, twice := l.names[name]; twice {
			l.problem(at, "there is a state of this name at %s: names are unique in a machine", first)
		}
		l.names[name] = at
		if sf, ok := states.object(name); ok {
			if st := l.state(name, sf); st != nil {
				sc.states[name] = st
			}
			sf.done()
		}
	}
	if len(states.values) == 0 {
		f.problem("States", "has no state")
	}
	l.transitions(f, sc, states.values)
	return sc
}

// transitions checks that every target is there and every state is reached.
func (l *loader) transitions(f *fields, sc *scope, declared map[string]any) {
	reached := map[string]bool{}
	var follow func(from, field, to string)
	follow = func(from, field, to string) {
		if to == "" || reached[to] {
			return
		}
		if _, ok := declared[to]; !ok {
			l.problem(from, "%s is %q, which is no state here", field, to)
			return
		}
		reached[to] = true
		if st := sc.states[to]; st != nil {
			for _, target := range st.targets() {
				follow(f.path+"/States/"+to+target.path, target.field, target.name)
			}
		}
	}
	follow(cmp.Or(f.path, "/"), "StartAt", sc.startAt)
	for _, name := range slices.Sorted(maps.Keys(sc.states)) {
		if !reached[name] {
			l.problem(f.path+"/States/"+name, "no state leads here")
		}
	}
}

// target is a transition that a state can make.
type target struct{ path, field, name string }

func (c *common) targets() []target { return []target{{"", "Next", c.next}} }

// state loads one state; the fields that its type does not read are refused by done.
func (l *loader) state(name string, f *fields) state {
	kind, ok := f.required("Type")
	if !ok {
		f.all()
		return nil
	}
	f.text("Comment")
	f.language()
	c := common{name: name, kind: kind}
	if kind != "Fail" {
		c.input = f.inOut("InputPath")
		c.output = f.inOut("OutputPath")
	}
	load, ok := map[string]func(common, *fields) state{
		"Pass": loadPass, "Task": loadTask, "Choice": loadChoice, "Wait": loadWait,
		"Succeed": loadSucceed, "Fail": loadFail, "Parallel": loadParallel, "Map": loadMap,
	}[kind]
	if !ok {
		f.problem("Type", "there is no state type %q", kind)
		f.all()
		return nil
	}
	switch kind {
	case "Succeed", "Fail":
		c.terminal = true
	case "Choice":
		c.assign = f.assign()
	default:
		c.assign = f.assign()
		next, hasNext := f.text("Next")
		end, hasEnd := f.boolean("End")
		c.next = next
		switch {
		case hasNext && hasEnd && end:
			f.problem("", "has both Next and End")
		case !hasNext && !end:
			f.problem("", "has neither Next nor End: true")
		}
	}
	return load(c, f)
}
