package expr

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func value(t testing.TB, text string) any {
	t.Helper()
	v, err := Decode([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func testEnv(t testing.TB) *Env {
	n := uint64(0)
	context := value(t, `{"Execution":{"Id":"e"}}`)
	x := value(t, `{"y":[10,20]}`)
	return &Env{
		Input:   value(t, `{"a":{"b":[1,2,{"c":"x"}],"with-hyphen":1,"dotted.name":2,"it's":3,"null":null},"n":9007199254740993,"list":[{"k":1,"v":"p"},{"k":2,"v":"q"},{"k":2.0,"v":"r"}],"s":"text"}`),
		Context: func() any { return context },
		Var: func(name string) (any, bool) {
			v, ok := map[string]any{"x": x, "große": json.Number("5")}[name]
			return v, ok
		},
		Random: func() uint64 { n++; return n * 0x9e3779b97f4a7c15 },
	}
}

func TestPaths(t *testing.T) {
	for path, want := range map[string]string{
		"$.a.b[0]":                       "1",
		"$.a.b[-1].c":                    `"x"`,
		"$['a']['b'][2]['c']":            `"x"`,
		`$["a"].b[1]`:                    "2",
		"$.a.with-hyphen":                "1",
		"$.a['dotted.name']":             "2",
		`$.a['it\'s']`:                   "3",
		"$.a.null":                       "null",
		"$.n":                            "9007199254740993", // more than a float64 holds
		"$.list[*].v":                    `["p","q","r"]`,
		"$.list[1:].k":                   "[2,2.0]",
		"$.list[0,2].v":                  `["p","r"]`,
		"$.list[?(@.k == 2)].v":          `["q","r"]`,
		"$.list[?(@.k > 1 && @.v=='q')]": `[{"k":2,"v":"q"}]`,
		"$..c":                           `["x"]`,
		"$.a.b.length()":                 "3",
		"$.s.length()":                   "4",
		"$.nothing[*]":                   "[]",
		"$$.Execution.Id":                `"e"`,
		"$x.y[1]":                        "20",
		"$große":                         "5",
		"$.a.nothing":                    "!",
		"$.a.null.x":                     "!",
		"$.a.b[3]":                       "!",
		"$.s.x":                          "!",
		"$unset":                         "!",
		"$.n.length()":                   "!",
	} {
		p, err := ParsePath(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if p.String() != path {
			t.Errorf("%s is written %s", path, p)
		}
		got, err := p.Eval(testEnv(t))
		if want == "!" {
			if _, ok := errors.AsType[*NotFoundError](err); !ok {
				t.Errorf("%s: %v, %v: want not found", path, got, err)
			}
			continue
		}
		text, _ := Encode(got)
		if err != nil || string(text) != want {
			t.Errorf("%s is %s (%v), want %s", path, text, err, want)
		}
	}
	for _, path := range []string{"", "a", "$.", "$.a[", "$.a['b", "$.a]", "$a b", "$.a.min()", "$.a.length().b", "$.a[*].length()", "$.a[?(@.x =~ /y/)]", "$..", "$.a b"} {
		if p, err := ParsePath(path); err == nil {
			t.Errorf("%q was accepted as %v", path, p)
		}
	}
}

func TestReferencePaths(t *testing.T) {
	for _, c := range []struct{ doc, path, want string }{
		{`{"a":1}`, "$", `"new"`},
		{`{"a":1}`, "$.b", `{"a":1,"b":"new"}`},
		{`{"a":1}`, "$.b.c.d", `{"a":1,"b":{"c":{"d":"new"}}}`},
		{`{"a":{"b":1,"c":2}}`, "$.a.b", `{"a":{"b":"new","c":2}}`},
		{`{"a":[1,2,3]}`, "$.a[1]", `{"a":[1,"new",3]}`},
		{`{"a":[1,2,3]}`, "$.a[3]", "!"},
		{`{"a":[1,2,3]}`, "$.a.b", "!"},
		{`"text"`, "$.a", "!"},
		{`null`, "$.a", "!"},
		{`{"a":1}`, "$.a.b", "!"},
	} {
		r, err := ParseReference(c.path)
		if err != nil {
			t.Fatal(err)
		}
		doc := value(t, c.doc)
		got, err := r.Set(doc, "new")
		if c.want == "!" {
			if err == nil {
				t.Errorf("%s in %s was accepted: %v", c.path, c.doc, got)
			}
			continue
		}
		if err != nil || !Equal(got, value(t, c.want)) {
			t.Errorf("%s in %s gives %v (%v), want %s", c.path, c.doc, got, err, c.want)
		}
		if !Equal(doc, value(t, c.doc)) {
			t.Errorf("%s changed its input", c.path)
		}
	}
	for _, path := range []string{"$$.a", "$x.a", "$.a[*]", "$..a", "$.a[-1]", "$.a.length()"} {
		if _, err := ParseReference(path); err == nil {
			t.Errorf("%s was accepted", path)
		}
	}
}

func TestIntrinsics(t *testing.T) {
	for call, want := range map[string]string{
		"States.Format('{} is \\{{}\\} \\'{}\\'', 'a', 1, true)":         `"a is {1} 'true'"`,
		"States.Format('no holes')":                                      `"no holes"`,
		"States.Format('{}', 'x', 'y')":                                  "!",
		"States.Format('{} {}', 'x')":                                    "!",
		"States.Format($.s)":                                             `"text"`,
		"States.Array(1, 'two', null, States.Array($.s))":                `[1,"two",null,["text"]]`,
		"States.ArrayPartition(States.ArrayRange(1, 5, 1), 2)":           "[[1,2],[3,4],[5]]",
		"States.ArrayPartition(States.Array(), 0)":                       "!",
		"States.ArrayRange(5, 1, -2)":                                    "[5,3,1]",
		"States.ArrayRange(1, 5, 0)":                                     "!",
		"States.ArrayRange(1, 1001, 1)":                                  "!",
		"States.ArrayRange(9223372036854775806, 9223372036854775807, 1)": "[9223372036854775806,9223372036854775807]",
		"States.ArrayGetItem(States.Array(1, 2), 2)":                     "!",
		"States.ArrayUnique(States.Array(1, 1.0, '1', 1e0, null, null))": `[1,"1",null]`,
		// Numbers that would take a long time to be written out, and those that are too large for any comparison.
		"States.ArrayUnique(States.Array(0.5, 5e-1, 0.25, -0.5, 1e900000000, 1.0e900000000, -1e900000000, 1e999999999999, 2e999999999999))": `[0.5,0.25,-0.5,1e900000000,-1e900000000,1e999999999999]`,
		"States.ArrayContains(States.Array(1, 2), 2.0)": "true",
		"States.ArrayLength('x')":                       "!",
		"States.Base64Decode(States.Base64Encode('é'))": `"é"`,
		"States.Base64Decode('%')":                      "!",
		"States.Hash('', 'MD5')":                        `"d41d8cd98f00b204e9800998ecf8427e"`,
		"States.ArrayLength(States.Array(States.Hash('" + strings.Repeat("é", 10_000) + "', 'MD5')))": "1", // characters, not bytes
		"States.Hash('" + strings.Repeat("é", 10_001) + "', 'MD5')":                                   "!",
		"States.Base64Encode('" + strings.Repeat("é", 10_001) + "')":                                  "!",
		"States.Hash('', 'CRC')": "!",
		"States.JsonMerge($.a, States.StringToJson('{\"b\":0}'), false)":      `{"b":0,"with-hyphen":1,"dotted.name":2,"it's":3,"null":null}`,
		"States.JsonMerge($.a, $.a, true)":                                    "!",
		"States.JsonToString(States.StringToJson('{\"b\" : [1.50, \"<\"]}'))": `"{\"b\":[1.50,\"<\"]}"`,
		"States.StringToJson('{')":                                            "!",
		"States.MathAdd(9007199254740993, 1)":                                 "9007199254740994",
		"States.MathAdd(9223372036854775807, 1)":                              "!",
		"States.MathAdd('1', 1)":                                              "!",
		"States.StringSplit('a.b+c', '.+')":                                   `["a","b","c"]`,
		"States.ArrayGetItem(States.StringSplit('a,b', ','), 1)":              `"b"`,
		"States.MathAdd($.a.b.length(), 1)":                                   "4",
		"States.ArrayLength($.list[?(@.v=='q' || @.v == ',)')])":              "1",
		"  States.MathAdd( 1 ,2 ) ":                                           "3",
		"States.MathRandom(1, 1)":                                             "!",
		"States.ArrayLength($.nothing)":                                       "!",
	} {
		c, err := ParseCall(call)
		if err != nil {
			t.Errorf("%s: %v", call, err)
			continue
		}
		got, err := c.Eval(testEnv(t))
		if want == "!" {
			if err == nil {
				t.Errorf("%s gives %v, want an error", call, got)
			}
			continue
		}
		text, _ := Encode(got)
		if err != nil || !Equal(got, value(t, want)) {
			t.Errorf("%s is %s (%v), want %s", call, text, err, want)
		}
	}
	for _, call := range []string{
		"", "States", "States.Format", "States.Format(", "States.Format()", "States.Format('x'", "States.Format('x' 'y')",
		"States.Format('x)", "States.Array(\"x\")", "States.Array(x)", "States.Array({})", "States.UUID(1)", "States.MathAdd(1)", "States.Format('x')y",
		"Foo.Bar()", strings.Repeat("States.Array(", 12) + strings.Repeat(")", 12),
	} {
		if c, err := ParseCall(call); err == nil {
			t.Errorf("%q was accepted as %v", call, c)
		}
	}
}

func TestRandomIsWithinItsRange(t *testing.T) {
	env := testEnv(t)
	seen := map[string]bool{}
	for _, text := range []string{"States.MathRandom(-3, 4)", "States.MathRandom(-3, 4, 7)"} {
		c, err := ParseCall(text)
		if err != nil {
			t.Fatal(err)
		}
		clear(seen)
		for range 200 {
			v, err := c.Eval(env)
			n, ok := v.(json.Number)
			i, whole := Int(n)
			if err != nil || !ok || !whole || i < -3 || i >= 4 {
				t.Fatalf("%s gives %v %v", text, v, err)
			}
			seen[string(n)] = true
		}
		if seeded := len(strings.Split(text, ",")) == 3; seeded != (len(seen) == 1) {
			t.Errorf("%s gave %d different numbers", text, len(seen))
		}
	}
	c, _ := ParseCall("States.UUID()")
	v, err := c.Eval(env)
	if s, ok := v.(string); err != nil || !ok || len(s) != 36 || s[14] != '4' || !strings.ContainsRune("89ab", rune(s[19])) {
		t.Errorf("%v %v", v, err)
	}
}

func TestTemplates(t *testing.T) {
	tmpl, problems := ParseTemplate(value(t, `{"a":{"b.$":"$.n","c":[{"d.$":"$$.Execution.Id"},"$.n"]},"e.$":"States.Array($x)","f":{}}`))
	if problems != nil {
		t.Fatal(problems)
	}
	got, err := tmpl.Eval(testEnv(t))
	if want := `{"a":{"b":9007199254740993,"c":[{"d":"e"},"$.n"]},"e":[{"y":[10,20]}],"f":{}}`; err != nil || !Equal(got, value(t, want)) {
		t.Errorf("%v %v", got, err)
	}
}

func TestNumbersCompareByValue(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"1", "1.0", 0},
		{"1e2", "100", 0},
		{"9007199254740993", "9007199254740992", 1},
		{"-1", "1", -1},
		{"1e400", "1e399", 1},
		{"0.1", "0.10", 0},
		{"1e-400", "0", 1},
		{"-0", "0", 0},
	} {
		if got := Compare(json.Number(c.a), json.Number(c.b)); got != c.want {
			t.Errorf("%s to %s is %d", c.a, c.b, got)
		}
	}
}

// FuzzExpr: no text makes the parser or the evaluation panic; what is parsed is written as
// it was read; what is evaluated can be encoded.
func FuzzExpr(f *testing.F) {
	for _, s := range []string{
		"$", "$$.a", "$x['y'][0]", "$.a..b[?(@.c == 'd')]", "$.a[1:2,'x'].length()", "States.Format('{}\\'', $.a, 1)",
		"States.ArrayRange(1, 9, 2)", "States.StringToJson('[1]')", "States.Hash($.s, 'SHA-1')", "States.MathAdd(1e400, 1)",
	} {
		f.Add(s)
	}
	env := testEnv(f)
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Parse(s)
		if err != nil {
			return
		}
		again, err := Parse(e.String())
		if err != nil || again.String() != e.String() {
			t.Fatalf("%q is written %q: %v", s, e, err)
		}
		v, err := e.Eval(env)
		if err != nil {
			return
		}
		if _, err := Encode(v); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzReference: setting and getting agree, and the rest stays as it was.
func FuzzReference(f *testing.F) {
	f.Add("$.a.b", `{"a":{"c":1}}`)
	f.Add("$.a[1]", `{"a":[1,2]}`)
	f.Add("$['x']", `{}`)
	f.Fuzz(func(t *testing.T, path, doc string) {
		r, err := ParseReference(path)
		if err != nil {
			return
		}
		v, err := Decode([]byte(doc))
		if err != nil {
			return
		}
		before, err := Encode(v)
		if err != nil {
			return
		}
		out, err := r.Set(v, "new")
		if err != nil {
			return
		}
		got, err := r.path.Eval(&Env{Input: out})
		if err != nil || got != "new" {
			t.Fatalf("%s in %s gives %v: %v %v", path, doc, out, got, err)
		}
		if after, _ := Encode(v); string(after) != string(before) {
			t.Fatalf("%s changed %s to %s", path, before, after)
		}
	})
}

// FuzzIntrinsics: functions that undo each other do, and what is the same said twice is the same.
func FuzzIntrinsics(f *testing.F) {
	f.Add(`[1,2.50,"x",null,{"a":[]}]`, 2)
	f.Add(`["é\u0000\"'{}", true, 9007199254740993, 1, 1.0]`, 1)
	f.Add(`[1e999999999999, -1e999999999999, 1e900000000, 1e-900000000, 0.1]`, 1)
	f.Fuzz(func(t *testing.T, doc string, n int) {
		v, err := Decode([]byte(doc))
		if err != nil {
			return
		}
		list, isList := v.([]any)
		text := doc
		if s, ok := v.(string); ok {
			text = s
		}
		env := &Env{Input: map[string]any{"v": v, "s": text, "n": Number(int64(1 + n&15))}}
		same := func(call string, want any) {
			t.Helper()
			c, err := ParseCall(call)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := c.Eval(env); err != nil || !Equal(got, want) {
				t.Fatalf("%s of %q is %v (%v), want %v", call, doc, got, err, want)
			}
		}
		same("States.StringToJson(States.JsonToString($.v))", v)
		if len(text) > 0 && len(text) < 5000 && utf8.ValidString(text) {
			same("States.Base64Decode(States.Base64Encode($.s))", text)
		}
		if !isList || len(list) == 0 {
			return
		}
		var joined []any
		c, _ := ParseCall("States.ArrayPartition($.v, $.n)")
		parts, err := c.Eval(env)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts.([]any) { //nolint:forcetypeassert // it panics, which is a failure
			joined = append(joined, part.([]any)...) //nolint:forcetypeassert // likewise
		}
		if !Equal(joined, v) {
			t.Fatalf("the partitions of %s are %v", doc, parts)
		}
		same("States.ArrayLength($.v)", Number(int64(len(list))))
		same("States.ArrayContains($.v, $.v[0])", true)
		c, _ = ParseCall("States.ArrayUnique($.v)")
		if env.Input, err = c.Eval(env); err != nil {
			t.Fatal(err)
		}
		same("States.ArrayUnique($)", env.Input)
	})
}
