package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"hindcast/internal/local"
	"hindcast/internal/record"
	"hindcast/internal/serve"
	"hindcast/internal/step"
	"hindcast/internal/table"
)

func (a *app) tableCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "table",
		Short: "Read the served version of a table, its history and its files; commit live partitions",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(errors.New("table takes one of log, cat, files and commit; see hindcast table --help"))
			}
			return usage(fmt.Errorf("table takes one of log, cat, files and commit, not %s; see hindcast table --help", args[0]))
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	cmd.AddCommand(a.tableLogCmd(), a.tableCatCmd(), a.tableFilesCmd(), a.tableCommitCmd())
	return cmd
}

// snapshot opens a version of the dataset that has a table; 0 is the served one. Base is where the dataset lies.
func (a *app) snapshot(ctx context.Context, name string, version int64) (snap *table.Snapshot, base string, err error) {
	ws, err := a.open()
	if err != nil {
		return nil, "", err
	}
	_, s, err := ws.Env.Table(name)
	if err != nil {
		return nil, "", usage(err)
	}
	store, err := ws.Env.Dataset(ctx, s)
	if err != nil {
		return nil, "", err
	}
	snap, err = table.OpenSnapshot(ctx, store)
	if errors.Is(err, table.ErrNoVersion) {
		return nil, "", fmt.Errorf("table %s: %w: promote a run of %s first", name, err, s.Job)
	}
	if err != nil {
		return nil, "", err
	}
	if version != 0 {
		if snap, err = snap.Version(ctx, version); errors.Is(err, table.ErrNoSuchVersion) {
			err = usage(err)
		}
		if err != nil {
			return nil, "", err
		}
	}
	return snap, ws.Env.DatasetLocation(s), nil
}

// versionGiven refuses a number that no version has.
func versionGiven(cmd *cobra.Command, version int64) error {
	if cmd.Flags().Changed("version") && version < 1 {
		return usage(fmt.Errorf("--version %d: versions count from 1; leave it out for the one that is served", version))
	}
	return nil
}

func (a *app) tableLogCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "log TABLE",
		Short:   "List the versions of the table's dataset, newest first",
		Example: "  hindcast table log daily-country-revenue",
		Args:    exactly("TABLE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			snap, _, err := a.snapshot(cmd.Context(), args[0], 0)
			if err != nil {
				return err
			}
			var list []table.Commit
			for v, err := range snap.History(cmd.Context()) {
				if err != nil {
					return err
				}
				list = append(list, v.Manifest.Commit)
			}
			return a.print(list, func(w io.Writer) {
				t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				defer t.Flush()
				fmt.Fprintln(t, "VERSION\tOP\tRUN\tBY\tAT\tWHY")
				for _, c := range list {
					fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\n", c.Generation, c.Op, c.Run, c.By, c.At.Format(time.RFC3339), c.Why)
				}
			})
		},
	}
}

func (a *app) tableCatCmd() *cobra.Command {
	var version int64
	var format string
	cmd := &cobra.Command{
		Use:   "cat TABLE",
		Short: "Stream a table's rows, ordered by partition, then key",
		Example: `  hindcast table cat daily-country-revenue
  hindcast table cat daily-country-revenue --version 1 --format parquet > version-1.parquet`,
		Args: exactly("TABLE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f := table.OutputFormat(format)
			if a.json && !cmd.Flags().Changed("format") {
				f = table.JSON
			}
			if f != table.CSV && f != table.JSON && f != table.Parquet {
				return usage(fmt.Errorf("--format %q: formats are csv, json and parquet", format))
			}
			if err := versionGiven(cmd, version); err != nil {
				return err
			}
			snap, _, err := a.snapshot(cmd.Context(), args[0], version)
			if err != nil {
				return err
			}
			return table.Cat(cmd.Context(), snap, args[0], a.Out, f)
		},
	}
	cmd.Flags().Int64Var(&version, "version", 0, "the version to read (default: the one that is served)")
	cmd.Flags().StringVar(&format, "format", "csv", "csv, json (an object a line) or parquet")
	return cmd
}

func (a *app) tableFilesCmd() *cobra.Command {
	var version int64
	var as string
	cmd := &cobra.Command{
		Use:   "files TABLE",
		Short: "List the files of a version, or print a query over exactly them",
		Example: `  hindcast table files daily-country-revenue
  hindcast table files daily-country-revenue --as duckdb | duckdb`,
		Args: exactly("TABLE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := versionGiven(cmd, version); err != nil {
				return err
			}
			snap, base, err := a.snapshot(cmd.Context(), args[0], version)
			if err != nil {
				return err
			}
			if as != "" {
				q, err := snap.Query(args[0], base, table.Dialect(as))
				if err != nil {
					return usage(err)
				}
				return a.print(map[string]string{"as": as, "query": q}, func(w io.Writer) { fmt.Fprintln(w, strings.TrimSpace(q)) })
			}
			files, err := snap.Files(args[0])
			if err != nil {
				return err
			}
			for i := range files {
				files[i].Path = base + "/" + files[i].Path
			}
			return a.print(files, func(w io.Writer) {
				t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				defer t.Flush()
				fmt.Fprintln(t, "PARTITION\tROWS\tSIZE\tFILE")
				for _, f := range files {
					fmt.Fprintf(t, "%s\t%d\t%s\t%s\n", f.Partition, f.Rows, f.Bytes, f.Path)
				}
			})
		},
	}
	cmd.Flags().Int64Var(&version, "version", 0, "the version to list (default: the one that is served)")
	cmd.Flags().StringVar(&as, "as", "", "print a query for duckdb, athena or spark")
	return cmd
}

func (a *app) tableCommitCmd() *cobra.Command {
	c := step.LiveCommit{Parent: -1}
	cmd := &cobra.Command{
		Use:   "commit TABLE PARTITION:FILE...",
		Short: "Replace partitions by what a live writer computed, through the same swap as promotions",
		Long: `Replaces each partition by the rows of a Parquet file, which has the table's columns and is sorted by its key.
A partition without a file ("day=2011-11-30:") becomes empty. If a partition changed since --parent, nothing is done.`,
		Example: `  hindcast table commit daily-country-revenue day=2011-11-30:rows.parquet --name live-2011-11-30-1 --parent 4 --code v1.9.2`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage(errors.New("table commit takes a table and at least one PARTITION:FILE"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if c.Name == "" || c.Parent < 0 || c.Code == "" {
				return usage(errors.New("table commit needs --name, --parent (0: there was no version) and --code"))
			}
			ws, err := a.open()
			if err != nil {
				return err
			}
			c.Table = args[0]
			partitions := map[string]step.Rows{}
			for _, arg := range args[1:] {
				partition, file, ok := strings.Cut(arg, ":")
				if !ok {
					return usage(fmt.Errorf("%q is not PARTITION:FILE, as day=2011-11-30:rows.parquet", arg))
				}
				if partitions[partition] != nil {
					return usage(fmt.Errorf("%s is given twice", partition))
				}
				partitions[partition] = func(func(*record.Batch, error) bool) {}
				if file != "" {
					if partitions[partition], err = ws.Env.RowsOfFile(c.Table, partition, file); err != nil {
						return err
					}
				}
			}
			c.Request = serve.Request{By: local.By(), At: ws.Env.Now(), Why: c.Why}
			res, err := ws.Env.Commit(ctx, c, partitions)
			if err != nil {
				return err
			}
			return a.swapped(c.Name, res)
		},
	}
	cmd.Flags().StringVar(&c.Name, "name", "", "identifies the commit: the same name again is the same commit")
	cmd.Flags().Int64Var(&c.Parent, "parent", -1, "the version that was read before the rows were computed; 0: there was none")
	cmd.Flags().StringVar(&c.Code, "code", "", "version of the code that computed the rows")
	cmd.Flags().StringVar(&c.Why, "why", "", "why, for the record")
	return cmd
}
