package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"hindcast/internal/unit"
)

// pair is one run of either side, one after the other.
type pair struct {
	Ours   usage  `json:"ours"`
	Theirs usage  `json:"theirs"`
	Load   string `json:"load"` // before it
}

func (p pair) String() string {
	return fmt.Sprintf("%s and %s, %.2fx", p.Ours, p.Theirs, p.wall())
}

func (u usage) String() string {
	return fmt.Sprintf("%.2f s (CPU %.2f s, %s)", u.Wall.Seconds(), u.CPU.Seconds(), u.Peak)
}

// How many times as fast we were, and as sparing.
func (p pair) wall() float64   { return p.Theirs.Wall.Seconds() / p.Ours.Wall.Seconds() }
func (p pair) cpu() float64    { return p.Theirs.CPU.Seconds() / p.Ours.CPU.Seconds() }
func (p pair) memory() float64 { return float64(p.Ours.Peak) / float64(p.Theirs.Peak) }
func (p pair) ours() float64   { return p.Ours.Wall.Seconds() }
func (p pair) theirs() float64 { return p.Theirs.Wall.Seconds() }

// line is what came out of a case.
type line struct {
	Case    string  `json:"case"`
	Written string  `json:"written_by"`
	Peer    string  `json:"peer"`
	Read    int64   `json:"events"`
	Result  digest  `json:"result"`
	Least   float64 `json:"least,omitempty"` // the wall ratio that must hold
	Aim     float64 `json:"aim,omitempty"`
	Pairs   []pair  `json:"pairs"`
	// Medians of the pairs' ratios: wall and CPU of theirs to ours, peak memory of ours to theirs.
	Wall   float64 `json:"wall"`
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	// Events a second, by the medians of wall time.
	OurRate   float64    `json:"our_rate"`
	TheirRate float64    `json:"their_rate"`
	OurPeak   unit.Bytes `json:"our_peak"`
	TheirPeak unit.Bytes `json:"their_peak"`
}

// report is all that came out, and of where.
type report struct {
	Machine string   `json:"machine"`
	Go      string   `json:"go"`
	Rows    int64    `json:"rows"`
	Workers int      `json:"workers"`
	Threads int      `json:"threads"`
	Memory  string   `json:"memory_limit,omitempty"`
	At      string   `json:"at"`
	Lines   []*line  `json:"lines,omitempty"`
	Remote  []remote `json:"remote,omitempty"`
}

func newReport(o *options) *report {
	return &report{
		Machine: machine(), Go: runtime.Version(), Rows: o.rows, Workers: o.workers, Threads: o.threads, Memory: o.memory,
		At: time.Now().UTC().Format(time.RFC3339),
	}
}

func machine() string {
	name := runtime.GOARCH
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(b), "model name"); ok {
			rest, _, _ = strings.Cut(rest, "\n")
			name = strings.TrimSpace(strings.TrimLeft(rest, " \t:"))
		}
	}
	return fmt.Sprintf("%s, %d processors, %s/%s", name, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
}

// median of what f gives.
func median[T any](of []T, f func(T) float64) float64 {
	var v []float64
	for _, x := range of {
		v = append(v, f(x))
	}
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

func (r *report) print(out io.Writer, asJSON bool) error {
	for _, l := range r.Lines {
		l.Wall, l.CPU, l.Memory = median(l.Pairs, pair.wall), median(l.Pairs, pair.cpu), median(l.Pairs, pair.memory)
		l.OurRate, l.TheirRate = float64(l.Read)/median(l.Pairs, pair.ours), float64(l.Read)/median(l.Pairs, pair.theirs)
		for _, p := range l.Pairs {
			l.OurPeak, l.TheirPeak = max(l.OurPeak, p.Ours.Peak), max(l.TheirPeak, p.Theirs.Peak)
		}
	}
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	fmt.Fprintf(out, "%s, %s; %d events, %d workers, %d threads; %s\n", r.Machine, r.Go, r.Rows, r.Workers, r.Threads, r.At)
	if r.Memory != "" {
		fmt.Fprintf(out, "DuckDB's memory_limit: %s\n", r.Memory)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(r.Lines) > 0 {
		fmt.Fprintln(t, "CASE\tWRITTEN BY\tPEER\tEVENTS\tWALL\tLEAST\tAIM\tCPU\tMEMORY\tROWS/S\tPEER'S\tPEAK\tPEER'S")
	}
	for _, l := range r.Lines {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%.2fx\t%s\t%s\t%.2fx\t%.2fx\t%.2fM\t%.2fM\t%s\t%s\n", l.Case, l.Written, l.Peer, l.Read,
			l.Wall, times(l.Least), times(l.Aim), l.CPU, l.Memory, l.OurRate/1e6, l.TheirRate/1e6, l.OurPeak, l.TheirPeak)
	}
	r.printRemote(t)
	return t.Flush()
}

func times(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1fx", x)
}
