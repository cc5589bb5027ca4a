package source

// SetLeast has runs of fewer rows lent.
func (l *Lender) SetLeast(rows int) { l.least = rows }
