package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"hindcast/internal/preflight"
)

// printPreflight tells what was found of the log: how many checks are ok in a line, and a line each for what is not. What is not known for one and
// the same reason shares one. Unless all is wanted, nothing is said where all is well.
func printPreflight(w io.Writer, findings []preflight.Finding, all bool) {
	ok := 0
	var whys, unknown []string
	for _, f := range findings {
		switch f.State {
		case preflight.OK:
			ok++
		case preflight.Unknown:
			name := string(f.Rule)
			if f.Accepted {
				name += " (accepted)"
			}
			if i := slices.Index(whys, f.Why); i >= 0 {
				unknown[i] += ", " + name
			} else {
				whys, unknown = append(whys, f.Why), append(unknown, name)
			}
		}
	}
	if len(findings) == 0 || ok == len(findings) && !all {
		return
	}
	fmt.Fprintf(w, "preflight %d of %d ok", ok, len(findings))
	for i, why := range whys {
		fmt.Fprintf(w, "; not known: %s (%s)", unknown[i], why)
	}
	fmt.Fprintln(w)
	for _, f := range findings {
		mark := map[preflight.State]string{preflight.Warn: "WARN", preflight.Refuse: "REFUSED"}[f.State]
		if f.Accepted && f.State == preflight.Refuse {
			mark = "accepted"
		}
		if mark == "" {
			continue
		}
		fmt.Fprintf(w, "%-8s %-12s %s\n", mark, f.Rule, f.Text)
		if f.Fix != "" && !f.Accepted {
			fmt.Fprintf(w, "         do: %s\n", strings.TrimSpace(f.Fix))
		}
	}
}
