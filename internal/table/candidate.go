package table

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hindcast/internal/blob"
)

// Candidate is a version to be: the partitions that a run (or a live commit)
// replaces. It is kept with the run, out of readers' reach. Its digest names what was validated.
type Candidate struct {
	Format  int    `json:"format"`
	Dataset string `json:"dataset"`
	Run     string `json:"run"`
	// Base is the version that the run compares itself with; nil where the dataset had none.
	Base       *Ref       `json:"base,omitempty"`
	Provenance Provenance `json:"provenance,omitzero"`
	// Tables are by name.
	Tables map[string]Change `json:"tables"`
}

// Change is what a candidate does to one table.
type Change struct {
	Schema Schema `json:"schema"`
	// Partitions are all that are replaced, by name.
	Partitions map[string]Replacement `json:"partitions"`
}

// Replacement is one partition's new content. Without files it is empty from now on.
type Replacement struct {
	Files []File `json:"files,omitempty"`
	// Base is the digest of the base's entry, "" where the base has none.
	Base string `json:"base,omitempty"`
}

// Output is what a run computed for one table.
type Output struct {
	Schema Schema
	// Partitions has the files of every partition that the run replaces, by name
	// (see [Schema.Partition]). One without rows is there, too. Files without rows are left out.
	Partitions map[string][]File
}

// NewCandidate assembles a run's candidate for the version that follows base, which is nil for the
// first one. The result depends on the arguments only: assembled again, it has the same digest.
func NewCandidate(dataset, run string, base *Snapshot, from Provenance, outputs map[string]Output) (*Candidate, error) {
	c := &Candidate{Format: Format, Dataset: dataset, Run: run, Provenance: from, Tables: map[string]Change{}}
	if base != nil {
		ref := base.Ref
		c.Base = &ref
	}
	for name, out := range outputs {
		change := Change{Schema: out.Schema, Partitions: map[string]Replacement{}}
		for label, files := range out.Partitions {
			if err := out.Schema.checkName(label); err != nil {
				return nil, fmt.Errorf("assemble the candidate of run %s: table %s: %w", run, name, err)
			}
			r := Replacement{Files: slices.DeleteFunc(slices.Clone(files), func(f File) bool { return f.Rows == 0 })}
			if base != nil {
				if p, ok := base.Manifest.Tables[name].Partitions[label]; ok {
					r.Base = p.Digest()
				}
			}
			change.Partitions[label] = r
		}
		c.Tables[name] = change
	}
	c.Provenance.Content = c.content()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("assemble the candidate of run %s: %w", run, err)
	}
	return c, nil
}

// content digests what the replaced partitions hold, in order, without the names of the files.
func (c *Candidate) content() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(c.Tables)) {
		for _, label := range slices.Sorted(maps.Keys(c.Tables[name].Partitions)) {
			fmt.Fprintf(h, "%s/%s\n", name, label)
			for _, f := range c.Tables[name].Partitions[label].Files {
				fmt.Fprintf(h, "\t%d %s\n", f.Rows, f.SHA256)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (c *Candidate) validate() error {
	if c.Format != Format {
		return fmt.Errorf("format %d, not %d", c.Format, Format)
	}
	if err := cmpErr(CheckName("dataset", c.Dataset), CheckName("run", c.Run)); err != nil {
		return err
	}
	if c.Base != nil {
		if err := c.Base.validate(); err != nil {
			return err
		}
	}
	if len(c.Tables) == 0 {
		return errors.New("it replaces nothing")
	}
	paths := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Tables)) {
		t := c.Tables[name]
		if err := checkTable(name, t.Schema); err != nil {
			return err
		}
		for label, r := range t.Partitions {
			if err := checkPartition(name, t.Schema, label, r.Files, paths); err != nil {
				return fmt.Errorf("table %s, %s: %w", name, label, err)
			}
			if r.Base != "" && (!isDigest(r.Base) || c.Base == nil) {
				return fmt.Errorf("table %s, %s: base digest %q", name, label, r.Base)
			}
		}
	}
	if got := c.content(); got != c.Provenance.Content {
		return fmt.Errorf("the digest of its content is %s, it says %s", got, c.Provenance.Content)
	}
	return nil
}

// Encode gives the candidate's bytes; its digest is theirs.
func (c *Candidate) Encode() ([]byte, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("encode candidate: %w", err)
	}
	b, err := encode(c)
	if err == nil && len(b) > maxManifest {
		err = fmt.Errorf("encode candidate: it has %d bytes, more than the %d that readers accept: use fewer, larger files", len(b), maxManifest)
	}
	return b, err
}

// Digest names what was validated: this candidate and no other.
func (c *Candidate) Digest() (string, error) {
	b, err := c.Encode()
	return Digest(b), err
}

// DecodeCandidate reads a candidate strictly.
func DecodeCandidate(b []byte) (*Candidate, error) {
	c := &Candidate{}
	if err := decode(b, maxManifest, c); err != nil {
		return nil, err
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	return c, nil
}

// WriteCandidate stores a candidate, once, and gives its digest.
func WriteCandidate(ctx context.Context, store blob.Store, key string, c *Candidate) (digest string, err error) {
	b, err := c.Encode()
	if err != nil {
		return "", err
	}
	if err := PutOnce(ctx, store, key, bytes.NewReader(b), Digest(b)); err != nil {
		return "", fmt.Errorf("write candidate: %w", err)
	}
	return Digest(b), nil
}

// ReadCandidate reads what WriteCandidate stored. If digest is not "" the candidate must have it.
func ReadCandidate(ctx context.Context, store blob.Store, key, digest string) (*Candidate, error) {
	b, _, err := readLimited(ctx, store, key, maxManifest)
	if err == nil && digest != "" && Digest(b) != digest {
		err = fmt.Errorf("its SHA-256 is %s, expected %s", Digest(b), digest)
	}
	if err != nil {
		return nil, fmt.Errorf("read candidate %s: %w", key, err)
	}
	c, err := DecodeCandidate(b)
	if err != nil {
		return nil, fmt.Errorf("read candidate %s: %w", key, err)
	}
	return c, nil
}

// MovedError means that partitions are no longer what an operation builds on.
// It would undo other people's work, so it is refused.
type MovedError struct {
	Moved []Moved
}

// Moved is a partition that changed.
type Moved struct {
	Table, Partition string
	// Now is what is served; nil where the partition is gone.
	Now *Partition
}

func (e *MovedError) Error() string {
	const named = 10
	type group struct {
		what       string
		partitions []string
	}
	var groups []group // by who wrote them: one commit often has many
	for _, m := range e.Moved[:min(named, len(e.Moved))] {
		what := "gone"
		if m.Now != nil {
			what = fmt.Sprintf("written by %s in generation %d", m.Now.Run, m.Now.Generation)
		}
		i := slices.IndexFunc(groups, func(g group) bool { return g.what == what })
		if i < 0 {
			i, groups = len(groups), append(groups, group{what: what})
		}
		groups[i].partitions = append(groups[i].partitions, m.Table+" "+m.Partition)
	}
	var parts []string
	for _, g := range groups {
		verb := " is "
		switch {
		case g.what != "gone" && len(g.partitions) == 1:
			verb = " was "
		case g.what != "gone":
			verb = " were "
		case len(g.partitions) > 1:
			verb = " are "
		}
		parts = append(parts, strings.Join(g.partitions, ", ")+verb+g.what)
	}
	if more := len(e.Moved) - named; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// Apply makes the version that follows base, which is nil for the first, with the
// candidate's partitions in place of its own; all others are carried over.
// Of commit, the caller gives the operation, its nonce, who, when and why, and the parent;
// the rest is filled in. The error is a *MovedError if base is not what the candidate was made for.
func (c *Candidate) Apply(base *Manifest, commit Commit) (*Manifest, error) {
	digest, err := c.Digest()
	if err != nil {
		return nil, err
	}
	commit.Dataset, commit.Run, commit.Candidate, commit.Provenance = c.Dataset, c.Run, digest, c.Provenance
	next, err := follow(base, commit)
	if err != nil {
		return nil, err
	}
	var moved []Moved
	for _, name := range slices.Sorted(maps.Keys(c.Tables)) {
		change := c.Tables[name]
		t, ok := next.Tables[name]
		if ok && !t.Schema.Equal(change.Schema) {
			return nil, fmt.Errorf("table %s has other columns, keys or partitions than this result: write to a table of another name", name)
		}
		t.Schema = change.Schema
		if t.Partitions == nil {
			t.Partitions = map[string]Partition{}
		}
		for _, label := range slices.Sorted(maps.Keys(change.Partitions)) {
			r := change.Partitions[label]
			if !unchanged(t.Partitions, label, r.Base) {
				moved = append(moved, movedTo(name, label, t.Partitions))
			}
			t.Partitions[label] = Partition{Run: c.Run, Generation: next.Commit.Generation, Files: r.Files}
		}
		next.Tables[name] = t
	}
	if len(moved) > 0 {
		return nil, &MovedError{Moved: moved}
	}
	return next, nil
}

// Revert makes the version that follows now, with the partitions that done brought in put back as
// before, done's parent (nil for none), has them; all others are carried over. Commit is as for
// [Candidate.Apply]. The error is a *MovedError if now has other content where done's would be taken out.
func Revert(now, done, before *Manifest, commit Commit) (*Manifest, error) {
	commit.Dataset, commit.Run, commit.Undoes = done.Commit.Dataset, done.Commit.Run, done.Commit.Generation
	next, err := follow(now, commit)
	if err != nil {
		return nil, err
	}
	if before == nil {
		before = &Manifest{}
	}
	var moved []Moved
	for _, name := range slices.Sorted(maps.Keys(done.Tables)) {
		t, had := next.Tables[name], before.Tables[name].Partitions
		if t.Partitions == nil { // gone as a whole, which unchanged finds out
			t.Partitions = map[string]Partition{}
		}
		for _, label := range slices.Sorted(maps.Keys(done.Tables[name].Partitions)) {
			p := done.Tables[name].Partitions[label]
			if p.Generation != done.Commit.Generation {
				continue // carried over
			}
			if !unchanged(t.Partitions, label, p.Digest()) {
				moved = append(moved, movedTo(name, label, t.Partitions))
			}
			if old, ok := had[label]; ok {
				t.Partitions[label] = old
			} else {
				delete(t.Partitions, label)
			}
		}
		if _, existed := before.Tables[name]; !existed && len(t.Partitions) == 0 {
			delete(next.Tables, name)
		}
	}
	if len(moved) > 0 {
		return nil, &MovedError{Moved: moved}
	}
	return next, nil
}

// follow is the version after base with nothing changed yet. Its maps are its own.
func follow(base *Manifest, commit Commit) (*Manifest, error) {
	next := &Manifest{Format: Format, Commit: commit, Tables: map[string]Table{}}
	next.Commit.Generation = 1
	if base == nil {
		return next, nil
	}
	if base.Commit.Dataset != commit.Dataset {
		return nil, fmt.Errorf("the store holds the dataset %s, not %s", base.Commit.Dataset, commit.Dataset)
	}
	next.Commit.Generation = base.Commit.Generation + 1
	for name, t := range base.Tables {
		t.Partitions = maps.Clone(t.Partitions)
		next.Tables[name] = t
	}
	return next, nil
}

// unchanged reports whether the entry under label has the digest; "" stands for no entry.
func unchanged(partitions map[string]Partition, label, digest string) bool {
	p, ok := partitions[label]
	if !ok {
		return digest == ""
	}
	return p.Digest() == digest
}

func movedTo(table, label string, partitions map[string]Partition) Moved {
	m := Moved{Table: table, Partition: label}
	if p, ok := partitions[label]; ok {
		m.Now = &p
	}
	return m
}

// Diff names the partitions whose entries differ between two versions (nil for none), by table, in the order of readers.
func Diff(before, after *Manifest) map[string][]string {
	if before == nil {
		before = &Manifest{}
	}
	out := map[string][]string{}
	for name, t := range after.Tables {
		old := before.Tables[name].Partitions
		for label, p := range t.Partitions {
			if was, ok := old[label]; !ok || !was.equal(p) {
				out[name] = append(out[name], label)
			}
		}
	}
	for name, t := range before.Tables {
		now := after.Tables[name].Partitions
		for label := range t.Partitions {
			if _, ok := now[label]; !ok {
				out[name] = append(out[name], label)
			}
		}
	}
	for name, labels := range out {
		t, ok := after.Tables[name]
		if !ok {
			t = before.Tables[name]
		}
		slices.SortFunc(labels, t.Schema.Compare)
	}
	return out
}

func (p Partition) equal(o Partition) bool {
	return p.Run == o.Run && p.Generation == o.Generation && slices.EqualFunc(p.Files, o.Files, func(a, b File) bool {
		return a.Path == b.Path && a.Rows == b.Rows && a.Bytes == b.Bytes && a.SHA256 == b.SHA256 &&
			slices.Equal(a.MinKey, b.MinKey) && slices.Equal(a.MaxKey, b.MaxKey)
	})
}
