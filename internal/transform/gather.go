package transform

import (
	"cmp"
	"slices"
)

// Gather adds up the accounts of the parts of a shard, in their order, to what one worker's would be: of parts of the rows where shared is unset, else of all rows
// by shares of the keys ([Config.Keys]). Tables are the shard's. What it takes for granted is that no id is in two parts of the rows. It may be that the accounts do
// not tell what one would say; then ok is false.
func Gather(tables []string, parts []Result, shared bool) (res Result, ok bool) {
	res.Done, res.Ended = true, true
	counts := map[Count]int{} // places in res.Counts
	for _, p := range parts {
		if c := p.Cursor; c != nil && (res.Cursor == nil || c.compare(*res.Cursor) > 0) {
			res.Cursor = c
		}
		for _, c := range p.Counts {
			of := Count{Partition: c.Partition, Origin: c.Origin, Table: c.Table}
			i, ok := counts[of]
			if !ok {
				i = len(res.Counts)
				counts[of], res.Counts = i, append(res.Counts, of)
			}
			res.Counts[i] = res.Counts[i].Plus(c)
		}
		res.DeadLetters += p.DeadLetters
		res.FirstDeadLetters = append(res.FirstDeadLetters, p.FirstDeadLetters...)
		res.Conflicts += p.Conflicts
		res.FirstConflicts = append(res.FirstConflicts, p.FirstConflicts...)
		res.Strays += p.Strays
		res.FirstStrays = append(res.FirstStrays, p.FirstStrays...)
	}
	table := func(name string) int { return slices.Index(tables, name) }
	slices.SortFunc(res.Counts, func(a, b Count) int {
		return cmp.Or(cmp.Compare(table(a.Table), table(b.Table)), a.compare(b))
	})
	slices.SortStableFunc(res.FirstDeadLetters, func(a, b DeadLetter) int {
		return a.compare(b, table)
	})
	slices.SortStableFunc(res.FirstConflicts, func(a, b Conflict) int { return a.Second.compare(b.Second) })
	slices.SortStableFunc(res.FirstStrays, func(a, b Stray) int { return a.compare(b.Position) })
	if shared && len(tables) > 1 && len(parts) > 1 {
		// An event may be dead for the keys of two tables, which two parts have: it counts once, and can be told by its place alone.
		if slices.ContainsFunc(parts, func(p Result) bool { return len(p.FirstDeadLetters) == MaxFindings }) {
			return Result{}, false
		}
		places := map[Position]bool{}
		for _, d := range res.FirstDeadLetters {
			places[d.Position] = true
		}
		res.DeadLetters = int64(len(places))
	}
	res.FirstDeadLetters = firsts(res.FirstDeadLetters)
	res.FirstConflicts = firsts(res.FirstConflicts)
	res.FirstStrays = firsts(res.FirstStrays)
	return res, true
}

// compare orders the counts of a table.
func (c Count) compare(o Count) int {
	return cmp.Or(cmp.Compare(c.Partition, o.Partition), cmp.Compare(len(c.Origin), len(o.Origin)))
}

// compare orders dead letters as they are told: by place, and then those of all tables, whose number is -1, before those of each.
func (d DeadLetter) compare(o DeadLetter, number func(table string) int) int {
	return cmp.Or(d.Position.compare(o.Position), cmp.Compare(number(d.Table), number(o.Table)))
}

// firsts are those of the findings that are told.
func firsts[T any](told []T) []T { return told[:min(len(told), MaxFindings)] }

// Plus is c, and what became of other rows.
func (c Count) Plus(o Count) Count {
	c.Applied += o.Applied
	c.Filtered += o.Filtered
	c.Duplicate += o.Duplicate
	c.Conflict += o.Conflict
	c.Stale += o.Stale
	c.Outside += o.Outside
	c.Dead += o.Dead
	return c
}
