package cli

import (
	"strings"
	"testing"
)

// TestWhatCannotTakeEffectIsRefused has what was asked for in vain, or under a name that is taken.
func TestWhatCannotTakeEffectIsRefused(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	window := []string{"--from", threeFrom, "--to", threeTo}
	commit := []string{"--parent", "1", "--code", "v1"}
	for _, c := range []struct {
		args []string
		says string
	}{
		{append([]string{"plan", "visits", "--shard-rows", "0"}, window...), "--shard-rows 0"},
		{append([]string{"run", "visits", "--shard-rows", "-1"}, window...), "--shard-rows -1"},
		{append([]string{"run", "visits", "--lap-rows", "0"}, window...), "--lap-rows 0"},
		{append([]string{"run", "visits", "--workers", "0"}, window...), "--workers 0"},
		{[]string{"table", "cat", "seen", "--version", "0"}, "versions count from 1"},
		{[]string{"table", "files", "seen", "--version", "-1"}, "versions count from 1"},
		{[]string{"nosuch"}, "no command"},
		{[]string{"promote", "nosuch"}, "there is no run nosuch"},
		{append([]string{"table", "commit", "seen", "day=2024-05-09:", "--name", a.early}, commit...), "is the name of a run"},
		{append([]string{"table", "commit", "seen", "day=2024-05-09:", "day=2024-05-09:", "--name", "live"}, commit...), "twice"},
	} {
		if r := a.do(t, c.args...).exits(t, exitUsage).has(t, c.says); strings.Contains(r.err, "request.json") {
			t.Errorf("%v tells of a key:\n%s", c.args, r.err)
		}
	}
	if got := a.history(t); len(got) != 1 {
		t.Errorf("the history is %v", got)
	}
	for _, flag := range [][]string{{"--as-of", "2011-12-01"}, {"--zone", "Europe/London"}} {
		hindcast(t, append([]string{"plan", "account-balance", "--workspace", a.ws}, flag...)...).exits(t, exitUsage).has(t, "whole log", flag[0])
	}
}
