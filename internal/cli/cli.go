// Package cli is the command line: one file a verb. Data goes to standard output, talk to standard error.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"hindcast/internal/job"
	"hindcast/internal/local"
	"hindcast/internal/plan"
	"hindcast/internal/preflight"
	"hindcast/internal/step"
)

// IO is where a command reads and writes.
type IO struct {
	Out, Err io.Writer
	// Terminal says that Err is a terminal, where progress is drawn.
	Terminal bool
	// Width gives how many characters a line of Out has; nil where that is no terminal.
	Width func() int
}

// Std is the process's own.
func Std() IO {
	std := IO{Out: os.Stdout, Err: os.Stderr, Terminal: term.IsTerminal(int(os.Stderr.Fd()))}
	if out := int(os.Stdout.Fd()); term.IsTerminal(out) {
		std.Width = func() int {
			width, _, err := term.GetSize(out)
			if err != nil {
				return 80
			}
			return width
		}
	}
	return std
}

// Main runs the command line and returns the exit code; see [ExitCodes].
func Main(args []string, std IO, jobs []job.Job) int {
	step.TuneCollector()
	return interruptible(args, std, local.Options{Jobs: jobs})
}

// interruptible ends in good order at the first signal, and at once at the second. A pipe that nobody reads any more ends
// nothing by a signal: a run goes on without its talk, and output that is lost is an error.
func interruptible(args []string, std IO, opts local.Options) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	signal.Ignore(syscall.SIGPIPE)
	return run(ctx, args, std, opts)
}

func run(ctx context.Context, args []string, std IO, opts local.Options) int {
	out := &output{w: std.Out}
	std.Out = out
	a := &app{IO: std, opts: opts}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(std.Out)
	root.SetErr(std.Err)
	err := root.ExecuteContext(ctx)
	if a.ws != nil {
		err = errors.Join(err, a.ws.Close())
	}
	if a.json {
		err = errors.Join(err, a.encode(err))
	}
	if out.err != nil && !errors.Is(err, out.err) {
		err = errors.Join(err, out.err)
	}
	if err == nil {
		return 0
	}
	if errors.Is(out.err, syscall.EPIPE) {
		return exitError // whoever read has what it wanted, as head does: there is nobody to tell
	}
	fmt.Fprintf(std.Err, "hindcast: %v\n", err)
	if gaps, ok := errors.AsType[*plan.GapError](err); ok && len(gaps.Found) > 0 {
		fmt.Fprint(std.Err, "as flags of a new run:")
		for _, g := range gaps.Found {
			fmt.Fprintf(std.Err, " --accept-gap %s", g)
		}
		fmt.Fprintln(std.Err)
	}
	if refused, ok := errors.AsType[*preflight.RefusedError](err); ok && len(refused.Acceptable()) > 0 {
		fmt.Fprint(std.Err, "as a flag of a new run: --accept ")
		for i, r := range refused.Acceptable() {
			fmt.Fprint(std.Err, strings.Repeat(",", min(i, 1)), r)
		}
		fmt.Fprintln(std.Err)
	}
	return exitCode(err)
}

// output remembers that something could not be written: then the command has not done what it was asked to.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(b)
	if err != nil {
		o.err = fmt.Errorf("write the output: %w", err)
	}
	return n, o.err
}

// failed is what is printed with --json in place of data, when a verb fails.
type failed struct {
	Error string `json:"error"`
	Exit  int    `json:"exit"`
	// Data is what the verb would have printed had it not failed, where it has come that far.
	Data any `json:"data,omitempty"`
}

// encode prints one JSON document: the data of the verb, or how it failed.
func (a *app) encode(err error) error {
	doc := a.data
	if err != nil {
		doc = failed{err.Error(), exitCode(err), a.data}
	}
	if doc == nil {
		return nil
	}
	e := json.NewEncoder(a.Out)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}

// app is what the verbs share.
type app struct {
	IO
	opts      local.Options
	workspace string
	json      bool
	data      any // to print with --json
	ws        *local.Workspace
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "hindcast",
		Short: "Recompute weeks of history into a new version, prove it, and swap it in",
		Long: `Hindcast recomputes a window of a topic's history with a corrected job, writes the
result beside what is served, checks it, and moves one pointer. Rollback moves it back.

Begin with: hindcast demo

` + ExitCodes,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			meant := ""
			if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
				meant = ", did you mean " + strings.Join(names, " or ") + "?"
			}
			return usage(fmt.Errorf("there is no command %q%s; see hindcast --help", args[0], meant))
		},
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SuggestionsMinimumDistance: 2,
		SilenceUsage:               true,
		SilenceErrors:              true,
	}
	root.SetUsageTemplate(root.UsageTemplate() + "{{if .HasParent}}\nhindcast --help lists the exit codes.\n{{end}}")
	root.PersistentFlags().StringVar(&a.workspace, "workspace", defaultWorkspace, "folder that holds runs and datasets")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print one JSON document: the data, or {error, exit, data} if it fails")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(fmt.Errorf("%w; see %s --help", err, cmd.CommandPath()))
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	for _, cmd := range []*cobra.Command{
		a.demoCmd(), a.jobsCmd(), a.planCmd(), a.runCmd(), a.runsCmd(), a.statusCmd(), a.watchCmd(), a.pauseCmd(), a.throttleCmd(), a.resumeCmd(), a.redriveCmd(), a.approveCmd(), a.rejectCmd(),
		a.abortCmd(), a.promoteCmd(), a.rollbackCmd(), a.tableCmd(), a.sourceCmd(), a.archiveCmd(),
	} {
		root.AddCommand(cmd)
	}
	return root
}

// open opens the workspace, once.
func (a *app) open() (*local.Workspace, error) {
	if a.ws != nil {
		return a.ws, nil
	}
	ws, err := local.Open(a.workspace, a.opts)
	if err == nil {
		ws.Env.Waiting = func(what string) { a.say("waiting  %s", what) }
	}
	a.ws = ws
	return ws, err
}

// print writes a verb's data: as text, or, if that was asked for, as JSON when the verb has ended. It is called once.
func (a *app) print(v any, text func(w io.Writer)) error {
	if a.json {
		a.data = v
		return nil
	}
	text(a.Out)
	return nil
}

// command is a command line for people to go on with.
func (a *app) command(args ...string) string {
	line := "hindcast " + strings.Join(args, " ")
	if a.workspace != defaultWorkspace {
		line += " --workspace " + a.workspace
	}
	return line
}

const defaultWorkspace = ".hindcast"

func (a *app) say(format string, args ...any) { fmt.Fprintf(a.Err, format+"\n", args...) }
