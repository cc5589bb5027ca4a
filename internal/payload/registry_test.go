package payload

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/blob/memblob"
	"hindcast/internal/record"
	"hindcast/internal/spec"
)

// server is a schema registry that counts what it is asked for.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int
	// answers are by path; fails is how many more requests are answered with 503.
	answers map[string]string
	fails   int
}

func serve(t testing.TB, answers map[string]string) *server {
	s := &server{asked: map[string]int{}, answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked[r.URL.EscapedPath()]++
		if s.fails > 0 {
			s.fails--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, ok := s.answers[r.URL.EscapedPath()]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			body = `{"error_code":40403,"message":"Schema not found"}`
		}
		if strings.HasPrefix(body, "401") {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

func answered(t testing.TB, a answer) string {
	t.Helper()
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func registry(t testing.TB, address string, store blob.Store) *Registry {
	t.Helper()
	r, err := NewRegistry(address, store)
	if err != nil {
		t.Fatal(err)
	}
	r.wait = time.Millisecond
	return r
}

func byRegistry(t testing.TB, schema record.Schema, r *Registry) *Decoder {
	t.Helper()
	d, err := New(schema, Options{Format: spec.Avro, Registry: r})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// framed puts a schema's id before a value.
func framed(id uint32, value []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, id), value...)
}

const (
	v1 = `{"type":"record","name":"R","fields":[{"name":"x","type":"int"}]}`
	v2 = `{"type":"record","name":"R","fields":[{"name":"y","type":["null","string"]},{"name":"x","type":"long"}]}`
)

func TestSchemasAreAskedForOnceAndKept(t *testing.T) {
	s := serve(t, map[string]string{"/base/schemas/ids/1": answered(t, answer{Schema: v1}), "/base/schemas/ids/2": answered(t, answer{Schema: v2, SchemaType: "AVRO"})})
	store := memblob.New()
	values := map[string][]byte{
		"x=7":             framed(1, wrote(t, v1, map[string]any{"x": 7})),
		"x=1099511627776": framed(2, wrote(t, v2, map[string]any{"x": int64(1 << 40), "y": "z"})),
		"the registry " + s.URL + "/base has no schema 3: the value is damaged, or it was written with another registry": framed(3, nil),
	}
	r := registry(t, s.URL+"/base/", store)
	var g sync.WaitGroup
	for range 4 {
		d := byRegistry(t, one(record.Int64, false), r)
		g.Go(func() {
			for range 3 {
				for want, value := range values {
					if got := row(t, d, value); strings.TrimSuffix(strings.Replace(got, "/base/ has", "/base has", 1), "/") != want {
						t.Errorf("%x gave %s, want %s", value, got, want)
					}
				}
			}
		})
	}
	g.Wait()
	for id := range 3 {
		if n := s.asked[fmt.Sprintf("/base/schemas/ids/%d", id+1)]; n != 1 {
			t.Errorf("schema %d was asked for %d times", id+1, n)
		}
	}

	s.Close() // what was resolved is enough to do it again
	again := byRegistry(t, one(record.Int64, false), registry(t, s.URL, store))
	for want, value := range values {
		if got := row(t, again, value); !strings.HasPrefix(got, want[:3]) {
			t.Errorf("%x gave %s, want %s", value, got, want)
		}
	}
}

// Two workers that ask at once go by one answer, even if the registry gives two.
func TestTheFirstAnswerThatWasKeptStands(t *testing.T) {
	store := memblob.New()
	one1 := serve(t, map[string]string{"/schemas/ids/1": answered(t, answer{Schema: v1})})
	other := serve(t, map[string]string{"/schemas/ids/1": answered(t, answer{Schema: v2})})
	first := byRegistry(t, one(record.Int64, true), registry(t, one1.URL, store))
	value := framed(1, wrote(t, v1, map[string]any{"x": 7}))
	for _, d := range []*Decoder{first, byRegistry(t, one(record.Int64, true), registry(t, other.URL, store))} {
		if got := row(t, d, value); got != "x=7" {
			t.Error(got)
		}
	}
	if len(other.asked) > 0 {
		t.Error("the second registry was asked")
	}
}

func TestSchemasThatReferToOthers(t *testing.T) {
	const kind = `{"type":"enum","name":"a.Kind","symbols":["sale","cancel"]}`
	const money = `{"type":"record","name":"a.Money","fields":[{"name":"kind","type":"a.Kind"}]}`
	const event = `{"type":"record","name":"a.R","fields":[{"name":"money","type":"a.Money"},{"name":"x","type":"a.Kind"}]}`
	s := serve(t, map[string]string{
		"/schemas/ids/9":                     answered(t, answer{Schema: event, References: []reference{{"a.Money", "m/y", 2}, {"a.Kind", "kind", 1}}}),
		"/subjects/m%2Fy/versions/2":         answered(t, answer{Schema: money, References: []reference{{"a.Kind", "kind", 1}}}),
		"/subjects/kind/versions/1":          answered(t, answer{Schema: kind}),
		"/schemas/ids/10":                    answered(t, answer{Schema: event, References: []reference{{"a.Money", "gone", 1}}}),
		"/schemas/ids/11":                    answered(t, answer{Schema: `{"n":1}`, SchemaType: "JSON"}),
		"/schemas/ids/12":                    answered(t, answer{Schema: event}), // whose references are not stated
		"/schemas/ids/13":                    answered(t, answer{Schema: `"string"`}),
		"/subjects/nothing/versions/nothing": "",
	})
	d := byRegistry(t, one(record.String, true), registry(t, s.URL, memblob.New()))
	if got := row(t, d, framed(9, []byte{2, 0})); got != `x="sale"` {
		t.Error(got)
	}
	for id, want := range map[uint32]string{
		11: "schema 11 of " + s.URL + " is of the type JSON, and only Avro is read",
		12: "schema 12 of " + s.URL + " is no Avro schema: ",
		13: "schema 13 is a string: only records are events",
	} {
		if got := row(t, d, framed(id, []byte{2, 0})); !strings.HasPrefix(got, want) {
			t.Errorf("schema %d gave %s", id, got)
		}
	}
	err := d.Append(t.Context(), make([]record.Column, 2), 0, framed(10, []byte{2, 0}))
	if err == nil || !strings.Contains(err.Error(), "resolve schema 10 at "+s.URL+": version 1 of subject gone, which it refers to: it answers with error 40403") {
		t.Error(err)
	}
}

// A registry that fails is no fault of the event: the error names the id and the address, and nothing is appended.
func TestARegistryThatFails(t *testing.T) {
	s := serve(t, map[string]string{
		"/schemas/ids/1": answered(t, answer{Schema: v1}), "/schemas/ids/2": "<html>", "/schemas/ids/3": "{}", "/schemas/ids/4": "401", "/schemas/ids/5": strings.Repeat(" ", maxSchema+1),
	})
	store := memblob.New()
	d := byRegistry(t, one(record.Int64, true), registry(t, s.URL, store))
	s.fails = tries - 1
	if got := row(t, d, framed(1, []byte{14})); got != "x=7" {
		t.Errorf("after %d failures: %s", tries-1, got)
	}
	fail := func(id uint32, want string, transient bool) {
		t.Helper()
		columns := make([]record.Column, 2)
		err := d.Append(t.Context(), columns, 0, framed(id, []byte{14}))
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("resolve schema %d at %s: ", id, s.URL)) || !strings.Contains(err.Error(), want) {
			t.Errorf("schema %d: %v, want %s", id, err, want)
		}
		if blob.IsTransient(err) != transient {
			t.Errorf("schema %d: %v: transient %v", id, err, !transient)
		}
		if len(columns[0].Int64s) > 0 || len(columns[1].Strings.Offsets) > 0 {
			t.Errorf("schema %d: a row was appended", id)
		}
	}
	fail(2, `/schemas/ids/2 answers with what is no JSON, beginning "<html>": is it a schema registry?`, false)
	fail(3, "/schemas/ids/3 answers without a schema", false)
	fail(4, "/schemas/ids/4 answers 401 Unauthorized: give a user and password in source.segments.registry", false)
	fail(5, "its answer has more than 4194304 bytes", false)
	s.fails = tries
	fail(6, "/schemas/ids/6 answers 503 Service Unavailable", true)
	s.Close()
	fail(7, "connect", true)
	var keys []string
	for info, err := range blob.All(t.Context(), store, "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	if !slices.Equal(keys, []string{"schemas/1.json"}) {
		t.Errorf("kept are %v", keys)
	}
}

func TestAPasswordIsNotTold(t *testing.T) {
	d := byRegistry(t, one(record.Int64, true), registry(t, "http://me:secret@127.0.0.1:1", nil))
	err := d.Append(t.Context(), make([]record.Column, 2), 0, framed(7, []byte{14}))
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "me:xxxxx@127.0.0.1:1") {
		t.Error(err)
	}
	for _, address := range []string{"", "me:secret@host", "ftp://me:secret@host", "http://me:secret@%zz"} {
		if _, err := NewRegistry(address, nil); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestValuesThatAreNoRegistrys(t *testing.T) {
	s := serve(t, nil)
	d := byRegistry(t, one(record.Int64, true), registry(t, s.URL, nil))
	for value, want := range map[string]string{
		"":                 "the value has 0 bytes, too few for a schema's id",
		"\x00\x00\x00\x01": "the value has 4 bytes, too few for a schema's id",
		`{"x":1}`:          "the value begins as JSON does, and Avro of a schema registry is read: is its format json?",
		"\x01\x00\x00\x00\x01\x02": "the value begins with the byte 1 where a schema registry's have 0 and the schema's id: " +
			"if the topic's values bear no id, name their schema in source.segments.schema",
	} {
		if got := row(t, d, []byte(value)); !strings.HasPrefix(got, want) {
			t.Errorf("%q gave %s", value, got)
		}
	}
	if len(s.asked) > 0 {
		t.Errorf("the registry was asked for %v", s.asked)
	}
}
