package payload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/avro"

	"hindcast/internal/blob"
)

const (
	maxSchema     = 4 << 20 // bytes of a registry's answer
	maxReferences = 200     // of a schema, of all depths
	tries         = 4
	patience      = 30 * time.Second // for one answer
)

// Registry resolves schema ids by a schema registry that speaks Confluent's protocol. An id never changes its meaning, so each is asked for once.
// It may be used concurrently.
//
// What an id stood for is kept in a store, usually the run's, under schemas/<id>.json: another worker, or the same run
// repeated, finds it there and asks nobody.
type Registry struct {
	base  *url.URL
	store blob.Store
	http  *http.Client
	wait  time.Duration // before the second try; then twice as long each

	mu    sync.Mutex
	known map[uint32]*entry
}

// entry is a schema id that is being resolved, or was.
type entry struct {
	mu     sync.Mutex
	done   bool
	schema *avro.Schema
	reason error
}

// resolved is what is kept of an id.
type resolved struct {
	ID     uint32 `json:"id"`
	URL    string `json:"url"`
	Schema string `json:"schema,omitempty"`
	// References are the schemas that Schema refers to, each after those that it refers to itself.
	References []string `json:"references,omitempty"`
	// Reason is why values of the id cannot be read, where it is no Avro schema that the registry has.
	Reason string `json:"reason,omitempty"`
}

// NewRegistry returns a registry by its URL, which may have a user and password. A nil store keeps nothing.
func NewRegistry(address string, store blob.Store) (*Registry, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the address of the schema registry is no http:// or https:// URL") // which may hold a password
	}
	return &Registry{
		base: u, store: store, known: map[uint32]*entry{}, wait: 250 * time.Millisecond,
		http: &http.Client{Timeout: patience},
	}, nil
}

// schema returns what an id stands for, or why values of it cannot be read.
func (r *Registry) schema(ctx context.Context, id uint32) (schema *avro.Schema, reason, err error) {
	r.mu.Lock()
	e := r.known[id]
	if e == nil {
		e = &entry{}
		r.known[id] = e
	}
	r.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.done {
		found, err := r.resolve(ctx, id)
		if err != nil {
			return nil, nil, fmt.Errorf("resolve schema %d at %s: %w", id, r.base.Redacted(), err)
		}
		e.schema, e.reason = found.parse()
		e.done = true
	}
	return e.schema, e.reason, nil
}

func (f resolved) parse() (*avro.Schema, error) {
	if f.Reason != "" {
		return nil, errors.New(f.Reason)
	}
	var types avro.SchemaCache
	for _, text := range append(slices.Clip(f.References), f.Schema) {
		s, err := types.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("schema %d of %s is no Avro schema: %w", f.ID, f.URL, err)
		}
		if text == f.Schema {
			return s, nil
		}
	}
	return nil, fmt.Errorf("schema %d of %s is empty", f.ID, f.URL)
}

// resolve finds an id in the store, or asks for it and keeps the answer.
func (r *Registry) resolve(ctx context.Context, id uint32) (resolved, error) {
	key := fmt.Sprintf("schemas/%d.json", id)
	if r.store != nil {
		switch found, err := r.kept(ctx, key); {
		case err == nil:
			return found, nil
		case !errors.Is(err, blob.ErrNotFound):
			return resolved{}, err
		}
	}
	found, err := r.ask(ctx, id)
	if err != nil || r.store == nil {
		return found, err
	}
	b, err := json.MarshalIndent(found, "", "  ")
	if err != nil {
		return resolved{}, err
	}
	if _, err := blob.PutBytes(ctx, r.store, key, b, blob.Condition{IfAbsent: true}); err != nil {
		if !errors.Is(err, blob.ErrPrecondition) {
			return resolved{}, fmt.Errorf("keep it: %w", err)
		}
		return r.kept(ctx, key) // another worker was faster; all go by the same
	}
	return found, nil
}

func (r *Registry) kept(ctx context.Context, key string) (resolved, error) {
	b, _, err := blob.ReadAll(ctx, r.store, key)
	if err != nil {
		return resolved{}, err
	}
	var found resolved
	if err := json.Unmarshal(b, &found); err != nil {
		return resolved{}, fmt.Errorf("read %s: %w", key, err)
	}
	return found, nil
}

// answer is a registry's, of a schema by its id or of a subject's version.
type answer struct {
	Schema     string      `json:"schema"`
	SchemaType string      `json:"schemaType"` // empty: Avro
	References []reference `json:"references"`

	ErrorCode int    `json:"error_code"`
	Message   string `json:"message"`
}

type reference struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// noSuchSchema is the registry's own way to say that it knows no schema of an id.
const noSuchSchema = 40403

func (r *Registry) ask(ctx context.Context, id uint32) (resolved, error) {
	found := resolved{ID: id, URL: r.base.Redacted()}
	a, err := r.get(ctx, "schemas", "ids", fmt.Sprint(id))
	switch {
	case err != nil:
		return resolved{}, err
	case a.ErrorCode == noSuchSchema:
		found.Reason = fmt.Sprintf("the registry %s has no schema %d: the value is damaged, or it was written with another registry", found.URL, id)
		return found, nil
	case a.ErrorCode != 0:
		return resolved{}, fmt.Errorf("it answers with error %d: %s", a.ErrorCode, a.Message)
	case a.SchemaType != "" && a.SchemaType != "AVRO":
		found.Reason = fmt.Sprintf("schema %d of %s is of the type %.20s, and only Avro is read", id, found.URL, a.SchemaType)
		return found, nil
	}
	found.Schema = a.Schema
	found.References, err = r.references(ctx, a.References, map[reference]bool{})
	return found, err
}

// references returns the texts of schemas that one refers to, each after its own references.
func (r *Registry) references(ctx context.Context, refs []reference, seen map[reference]bool) ([]string, error) {
	var out []string
	for _, ref := range refs {
		ref.Name = ""
		if seen[ref] {
			continue
		}
		if seen[ref] = true; len(seen) > maxReferences {
			return nil, fmt.Errorf("it refers to more than %d schemas", maxReferences)
		}
		a, err := r.get(ctx, "subjects", ref.Subject, "versions", fmt.Sprint(ref.Version))
		if err == nil && a.ErrorCode != 0 {
			err = fmt.Errorf("it answers with error %d: %s", a.ErrorCode, a.Message)
		}
		if err != nil {
			return nil, fmt.Errorf("version %d of subject %s, which it refers to: %w", ref.Version, ref.Subject, err)
		}
		below, err := r.references(ctx, a.References, seen)
		if err != nil {
			return nil, err
		}
		out = append(append(out, below...), a.Schema)
	}
	return out, nil
}

// get asks, and asks again where the registry fails in a way that may pass.
func (r *Registry) get(ctx context.Context, elements ...string) (answer, error) {
	path := make([]string, len(elements))
	for i, e := range elements {
		path[i] = url.PathEscape(e)
	}
	u := r.base.JoinPath(path...)
	for n := 1; ; n++ {
		a, err := r.once(ctx, u)
		if err == nil || !errors.Is(err, blob.ErrTransient) || n == tries || ctx.Err() != nil {
			return a, err
		}
		if err := blob.Sleep(ctx, r.wait<<(n-1)); err != nil {
			return answer{}, err
		}
	}
}

func (r *Registry) once(ctx context.Context, u *url.URL) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Accept", "application/vnd.schemaregistry.v1+json, application/json")
	resp, err := r.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return answer{}, ctx.Err()
		}
		return answer{}, fmt.Errorf("%w: %w", blob.ErrTransient, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxSchema+1))
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", blob.ErrTransient, err)
	}
	if len(body) > maxSchema {
		return answer{}, fmt.Errorf("its answer has more than %d bytes", maxSchema)
	}
	var a answer
	badJSON := json.Unmarshal(body, &a)
	switch code := resp.StatusCode; {
	case code >= 500 || code == http.StatusTooManyRequests:
		return answer{}, fmt.Errorf("%w: %s answers %s", blob.ErrTransient, u.Redacted(), resp.Status)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return answer{}, fmt.Errorf("%s answers %s: give a user and password in source.segments.registry, as https://$USER:$PASSWORD@HOST", u.Redacted(), resp.Status)
	case code != http.StatusOK && (badJSON != nil || a.ErrorCode == 0):
		return answer{}, fmt.Errorf("%s answers %s: is it a schema registry?", u.Redacted(), resp.Status)
	case badJSON != nil:
		return answer{}, fmt.Errorf("%s answers with what is no JSON, beginning %q: is it a schema registry?", u.Redacted(), begin(body))
	case code == http.StatusOK && strings.TrimSpace(a.Schema) == "":
		return answer{}, fmt.Errorf("%s answers without a schema: is it a schema registry?", u.Redacted())
	}
	return a, nil
}

func begin(b []byte) string {
	const most = 40
	return string(b[:min(len(b), most)])
}
