package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"hindcast/internal/spec"
	"hindcast/internal/step"
)

type listedJob struct {
	Job    string     `json:"job"`
	Folder string     `json:"folder"`
	Spec   *spec.Spec `json:"spec,omitempty"`
	Error  string     `json:"error,omitempty"`
}

func (a *app) jobsCmd() *cobra.Command {
	schema := false
	cmd := &cobra.Command{
		Use:     "jobs",
		Short:   "List the jobs, and what is wrong with those that cannot run",
		Example: "  hindcast jobs\n  hindcast jobs --schema >job.schema.json",
		Args:    exactly(),
		RunE: func(*cobra.Command, []string) error {
			if schema {
				b, err := spec.JSONSchema()
				if err == nil {
					_, err = fmt.Fprintf(a.Out, "%s\n", b)
				}
				return err
			}
			var list []listedJob
			var bad []string
			for _, j := range a.opts.Jobs {
				l := listedJob{Folder: "jobs/" + j.Folder()}
				s, err := step.Spec(j)
				if err != nil {
					l.Error = err.Error()
					bad = append(bad, l.Folder)
				} else {
					l.Job, l.Spec = s.Job, s
				}
				list = append(list, l)
			}
			err := a.print(list, func(w io.Writer) {
				t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				defer t.Flush()
				fmt.Fprintln(t, "JOB\tTABLES\tDATASET\tWHY")
				for _, l := range list {
					if l.Error != "" {
						fmt.Fprintf(t, "%s\t\t\tcannot run: %s\n", l.Folder, l.Error)
						continue
					}
					var tables []string
					for _, o := range l.Spec.Outputs {
						tables = append(tables, o.Table)
					}
					fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", l.Job, strings.Join(tables, ", "), l.Spec.Dataset, l.Spec.Why)
				}
			})
			if err == nil && bad != nil {
				err = usage(fmt.Errorf("%s cannot run", strings.Join(bad, ", ")))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of job.yaml, for editors")
	return cmd
}
