package table

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"hindcast/internal/blob"
)

// Snapshot is one version, open for reading. What it shows never changes, whatever
// the pointer does meanwhile. It may be used concurrently.
type Snapshot struct {
	Ref      Ref
	Manifest *Manifest
	store    blob.Store
}

// OpenSnapshot opens the version that the dataset in store serves. The error is ErrNoVersion where there is none yet.
func OpenSnapshot(ctx context.Context, store blob.Store) (*Snapshot, error) {
	p, _, err := ReadPointer(ctx, store)
	if err != nil {
		return nil, err
	}
	s, err := OpenRef(ctx, store, p.Ref)
	if err == nil && s.Manifest.Commit.Dataset != p.Dataset {
		err = fmt.Errorf("the pointer is of dataset %s, its manifest of %s", p.Dataset, s.Manifest.Commit.Dataset)
	}
	return s, err
}

// OpenRef opens a version by name. What lies there must be what the name says, to the byte.
func OpenRef(ctx context.Context, store blob.Store, ref Ref) (*Snapshot, error) {
	b, _, err := readLimited(ctx, store, ref.Manifest, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("read version %d: %w", ref.Generation, err)
	}
	if got := Digest(b); got != ref.Digest {
		return nil, fmt.Errorf("read version %d: manifest %s is damaged: its SHA-256 is %s, expected %s", ref.Generation, ref.Manifest, got, ref.Digest)
	}
	m, err := DecodeManifest(b)
	if err == nil && (m.Commit.Generation != ref.Generation || m.Commit.Nonce != ref.Nonce) {
		err = fmt.Errorf("it is generation %d with nonce %s, expected %d with %s", m.Commit.Generation, m.Commit.Nonce, ref.Generation, ref.Nonce)
	}
	if err != nil {
		return nil, fmt.Errorf("read version %d: manifest %s: %w", ref.Generation, ref.Manifest, err)
	}
	return &Snapshot{Ref: ref, Manifest: m, store: store}, nil
}

// OpenCandidate shows the version that a candidate would make of its base (nil for none), before it is promoted:
// for checks, not for readers. Its Ref is empty.
func OpenCandidate(store blob.Store, base *Snapshot, c *Candidate) (*Snapshot, error) {
	var on *Manifest
	if base != nil {
		on = base.Manifest
	}
	m, err := c.Apply(on, Commit{Op: OpPromote})
	if err != nil {
		return nil, fmt.Errorf("open the candidate of run %s: %w", c.Run, err)
	}
	return &Snapshot{Manifest: m, store: store}, nil
}

// Parent opens the version before; it is nil for the first.
func (s *Snapshot) Parent(ctx context.Context) (*Snapshot, error) {
	if s.Manifest.Commit.Parent == nil {
		return nil, nil
	}
	return OpenRef(ctx, s.store, *s.Manifest.Commit.Parent)
}

// History yields this version and its ancestors, newest first. It ends after the first error.
func (s *Snapshot) History(ctx context.Context) iter.Seq2[*Snapshot, error] {
	return func(yield func(*Snapshot, error) bool) {
		for at := s; at != nil; {
			if !yield(at, nil) {
				return
			}
			var err error
			if at, err = at.Parent(ctx); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// ErrNoSuchVersion means that a version was asked for that the dataset never had.
var ErrNoSuchVersion = errors.New("there is no version")

// Version opens the version with a generation: this one or an ancestor. The error is ErrNoSuchVersion where it is neither.
func (s *Snapshot) Version(ctx context.Context, generation int64) (*Snapshot, error) {
	if generation < 1 || generation > s.Ref.Generation {
		return nil, fmt.Errorf("%w %d: versions 1 to %d exist", ErrNoSuchVersion, generation, s.Ref.Generation)
	}
	for v, err := range s.History(ctx) {
		if err != nil || v.Ref.Generation == generation {
			return v, err
		}
	}
	return nil, fmt.Errorf("the history of version %d ends before version %d", s.Ref.Generation, generation)
}

// Table describes a table of the version.
func (s *Snapshot) Table(name string) (Table, error) {
	t, ok := s.Manifest.Tables[name]
	if !ok {
		has := "it has none"
		if len(s.Manifest.Tables) > 0 {
			has = "it has " + strings.Join(slices.Sorted(maps.Keys(s.Manifest.Tables)), ", ")
		}
		return Table{}, fmt.Errorf("version %d has no table %s: %s", s.Manifest.Commit.Generation, name, has)
	}
	return t, nil
}

// Served is a file of a version, with the name of its partition.
type Served struct {
	Partition string `json:"partition"`
	File
}

// Files lists a table's files in the order of readers: by time, or by bucket.
func (s *Snapshot) Files(name string) ([]Served, error) {
	t, err := s.Table(name)
	if err != nil {
		return nil, err
	}
	out := []Served{}
	for _, p := range t.Order() {
		for _, f := range t.Partitions[p].Files {
			out = append(out, Served{Partition: p, File: f})
		}
	}
	return out, nil
}

// Order is the names of a table's partitions in the order of readers: by time, or by bucket.
func (t Table) Order() []string {
	return slices.SortedFunc(maps.Keys(t.Partitions), t.Schema.Compare)
}
