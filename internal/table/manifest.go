package table

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/unit"
)

// Op is what made a version.
type Op string

// The operations.
const (
	OpPromote  Op = "promote"  // a run's candidate was swapped in
	OpRollback Op = "rollback" // a run's partitions were taken back out
	OpCommit   Op = "commit"   // a live writer replaced partitions
)

// File is one data file.
type File struct {
	Path   string     `json:"path"` // below the dataset
	Rows   int64      `json:"rows"`
	Bytes  unit.Bytes `json:"bytes"`
	SHA256 string     `json:"sha256"`
	// MinKey and MaxKey are the first and last row's keys, one text a key column as
	// [Text] writes it; both are nil where the table has no key or a key is very long.
	MinKey []string `json:"min_key,omitempty"`
	MaxKey []string `json:"max_key,omitempty"`
}

// Partition is one partition of a version. It may have no files: computed, and empty.
type Partition struct {
	// Run is the run or live commit that wrote it, and Generation the version that brought it in.
	Run        string `json:"run"`
	Generation int64  `json:"generation"`
	Files      []File `json:"files,omitempty"`
}

// Rows counts the partition's rows.
func (p Partition) Rows() int64 { return countRows(p.Files) }

func countRows(files []File) (n int64) {
	for _, f := range files {
		n += f.Rows
	}
	return n
}

// Digest identifies the entry: who wrote it, when, and its files.
func (p Partition) Digest() string {
	b, err := encode(p)
	if err != nil {
		panic("encode a partition: " + err.Error()) // strings and integers only: it cannot fail
	}
	return Digest(b)
}

// Table is one table of a version.
type Table struct {
	Schema Schema `json:"schema"`
	// Partitions are by name ("day=2011-11-01", "bucket=0007").
	Partitions map[string]Partition `json:"partitions,omitempty"`
}

// Ref names a version.
type Ref struct {
	Generation int64  `json:"generation"`
	Nonce      string `json:"nonce"`
	Manifest   string `json:"manifest"` // the manifest's key
	Digest     string `json:"digest"`   // SHA-256 of the manifest's bytes
}

// Coverage is the input of a run from one topic partition: offsets [First, Next), those
// from Tail on captured from the brokers (Tail equals Next where none were).
type Coverage struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	First     int64  `json:"first"`
	Tail      int64  `json:"tail"`
	Next      int64  `json:"next"`
}

// Provenance is what a result was made from. The digests are opaque here.
type Provenance struct {
	Job    string `json:"job,omitempty"`
	Window string `json:"window,omitempty"` // as two instants; empty for the whole log
	Plan   string `json:"plan,omitempty"`   // digest of the plan
	Code   string `json:"code,omitempty"`   // digest of the job's code, or a live writer's code version
	// Content is the digest of all replaced content, whatever the files are called:
	// runs that computed the same have the same.
	Content  string     `json:"content,omitempty"`
	Coverage []Coverage `json:"coverage,omitempty"`
}

// Commit is how a version came about.
type Commit struct {
	Dataset    string `json:"dataset"`
	Generation int64  `json:"generation"` // 1 is the first version's
	// Nonce identifies the operation. A history has it at most once.
	Nonce string    `json:"nonce"`
	Op    Op        `json:"op"`
	Run   string    `json:"run"` // the run that was promoted or rolled back, or the live commit's name
	By    string    `json:"by,omitempty"`
	At    time.Time `json:"at"` // when it was asked for
	Why   string    `json:"why,omitempty"`
	// Undoes is the generation that a rollback takes back out.
	Undoes int64 `json:"undoes,omitempty"`
	// Parent is the version that was served before; nil for the first.
	Parent *Ref `json:"parent,omitempty"`
	// Candidate is the digest of the candidate that was validated and is hereby served.
	Candidate  string     `json:"candidate,omitempty"`
	Provenance Provenance `json:"provenance,omitzero"`
}

// Manifest is a version: the complete list of a dataset's partitions and files.
type Manifest struct {
	Format int    `json:"format"`
	Commit Commit `json:"commit"`
	// Tables are by name.
	Tables map[string]Table `json:"tables,omitempty"`
}

// Encode validates the manifest and gives its bytes, the key to store them under, and the version's name.
func (m *Manifest) Encode() ([]byte, Ref, error) {
	if err := m.validate(); err != nil {
		return nil, Ref{}, fmt.Errorf("encode manifest: %w", err)
	}
	b, err := encode(m)
	if err != nil {
		return nil, Ref{}, fmt.Errorf("encode manifest: %w", err)
	}
	if len(b) > maxManifest {
		return nil, Ref{}, fmt.Errorf("encode manifest: it has %d bytes, more than the %d that readers accept: use fewer, larger files", len(b), maxManifest)
	}
	digest := Digest(b)
	return b, Ref{
		Generation: m.Commit.Generation,
		Nonce:      m.Commit.Nonce,
		Manifest:   fmt.Sprintf("manifests/%010d-%s.json", m.Commit.Generation, digest[:16]),
		Digest:     digest,
	}, nil
}

// DecodeManifest reads a manifest strictly.
func DecodeManifest(b []byte) (*Manifest, error) {
	m := &Manifest{}
	if err := decode(b, maxManifest, m); err != nil {
		return nil, err
	}
	if err := m.validate(); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Manifest) validate() error {
	if m.Format != Format {
		return fmt.Errorf("format %d, not %d", m.Format, Format)
	}
	if err := m.Commit.validate(); err != nil {
		return err
	}
	paths := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(m.Tables)) {
		t := m.Tables[name]
		if err := checkTable(name, t.Schema); err != nil {
			return err
		}
		for label, p := range t.Partitions {
			err := CheckName("run", p.Run)
			if err == nil && (p.Generation < 1 || p.Generation > m.Commit.Generation) {
				err = fmt.Errorf("brought in by generation %d", p.Generation)
			}
			if err == nil {
				err = checkPartition(name, t.Schema, label, p.Files, paths)
			}
			if err != nil {
				return fmt.Errorf("table %s, %s: %w", name, label, err)
			}
		}
	}
	return nil
}

func (c Commit) validate() error {
	if err := cmpErr(CheckName("dataset", c.Dataset), CheckName("run", c.Run), checkAt(c.At)); err != nil {
		return err
	}
	switch {
	case c.Nonce == "" || len(c.Nonce) > 128:
		return errors.New("the nonce is empty or long")
	case c.Op != OpPromote && c.Op != OpRollback && c.Op != OpCommit:
		return fmt.Errorf("unknown operation %q", c.Op)
	case c.Generation < 1:
		return fmt.Errorf("generation %d", c.Generation)
	case (c.Generation == 1) != (c.Parent == nil):
		return errors.New("the first generation has no parent, and only that one")
	case (c.Op == OpRollback) != (c.Undoes != 0) || c.Undoes < 0 || c.Undoes >= c.Generation:
		return fmt.Errorf("a %s that undoes generation %d", c.Op, c.Undoes)
	case c.Candidate != "" && !isDigest(c.Candidate):
		return fmt.Errorf("candidate digest %q is none", c.Candidate)
	case c.Parent == nil:
		return nil
	case c.Parent.Generation != c.Generation-1:
		return fmt.Errorf("generation %d has generation %d as its parent", c.Generation, c.Parent.Generation)
	}
	return c.Parent.validate()
}

func (r Ref) validate() error {
	switch {
	case !isDigest(r.Digest):
		return fmt.Errorf("manifest digest %q is none", r.Digest)
	case !strings.HasPrefix(r.Manifest, "manifests/"):
		return fmt.Errorf("manifest key %q is not below manifests/", r.Manifest)
	case r.Generation < 1 || r.Nonce == "":
		return fmt.Errorf("generation %d with nonce %q", r.Generation, r.Nonce)
	}
	return blob.CheckKey(r.Manifest)
}

// checkAt asks for what encodes to one text only.
func checkAt(t time.Time) error {
	if t.IsZero() || t.Location() != time.UTC || !t.Equal(t.Truncate(time.Microsecond)) {
		return fmt.Errorf("time %v is zero, not in UTC, or finer than microseconds", t)
	}
	return nil
}

func checkTable(name string, s Schema) error {
	if err := CheckName("table", name); err != nil {
		return err
	}
	if err := s.Validate(); err != nil {
		return fmt.Errorf("table %s: %w", name, err)
	}
	return nil
}

// checkPartition checks one partition's name and files. Paths remembers them, across the manifest, so that no file is listed twice.
func checkPartition(table string, s Schema, name string, files []File, paths map[string]string) error {
	if _, err := s.Label(name); err != nil {
		return err
	}
	for _, f := range files {
		if other, ok := paths[f.Path]; ok {
			return fmt.Errorf("file %s is listed twice, the other time in %s", f.Path, other)
		}
		paths[f.Path] = table + "/" + name
		switch {
		case !strings.HasPrefix(f.Path, "data/"):
			return fmt.Errorf("file %q is not below data/", f.Path)
		case f.Rows < 1 || f.Bytes < 1 || !isDigest(f.SHA256):
			return fmt.Errorf("file %s has %d rows, %d bytes, SHA-256 %q", f.Path, f.Rows, f.Bytes, f.SHA256)
		case len(f.MinKey) != len(f.MaxKey) || len(f.MinKey) != 0 && len(f.MinKey) != s.Keys:
			return fmt.Errorf("file %s has key bounds of %d and %d columns, the key has %d", f.Path, len(f.MinKey), len(f.MaxKey), s.Keys)
		}
		if err := blob.CheckKey(f.Path); err != nil {
			return err
		}
	}
	return nil
}

// cmpErr returns the first error.
func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
