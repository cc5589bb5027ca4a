package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"hindcast/internal/archive"
	"hindcast/internal/step"
)

func (a *app) archiveCmd() *cobra.Command {
	var r step.ArchiveRequest
	var from string
	cmd := &cobra.Command{
		Use:   "archive TOPIC",
		Short: "Copy a topic to Parquet segments, from where the last call ended",
		Long: `For those who have no exporter: copies what the brokers have of a topic to segments with exact offsets, named as Kafka Connect's, so that
the next correction has its input. Each call goes on where the segments end and stops at the end of the log as it is when the call begins; call it
from a timer, more often than retention deletes. Only committed records are copied, production is asked nothing but to be read, and an
object is never written again.

Records are kept as they are, in the columns key, value and headers: read them with "value: { column: value, format: json }" in the job's segments. With
--job the job's brokers are used, with their TLS and SASL, and the columns that the job reads are kept in place of the bytes, unless --raw is given.`,
		Example: `  hindcast archive orders --brokers b1:9092,b2:9092 --to s3://bucket/archive
  hindcast archive orders --job daily-orders --raw --to s3://bucket/archive --records-per-second 20000`,
		Args: exactly("TOPIC"),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"records-per-segment", "records-per-second"} {
				if f := cmd.Flags().Lookup(name); f.Changed && (f.Value.String() == "0" || f.Value.String()[0] == '-') {
					return usage(fmt.Errorf("--%s %s: it takes at least one record; leave it out for the default", name, f.Value))
				}
			}
			switch {
			case r.To == "":
				return usage(errors.New("--to is missing: the location of the archive, as s3://bucket/archive or a folder"))
			case r.Raw && r.Job == "":
				return usage(errors.New("--raw says what to keep with --job: without a job records are kept as they are"))
			}
			var err error
			if r.From, err = fromOffsets(from); err != nil {
				return usage(err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ws, err := a.open()
			if err != nil {
				return err
			}
			r.Topic = args[0]
			p := newArchiveProgress(a.IO)
			r.Watch = p.update
			report, err := ws.Env.Archive(cmd.Context(), r)
			p.done()
			if err != nil && len(report.Partitions) == 0 {
				return err
			}
			if err != nil && cmd.Context().Err() != nil {
				err = &coded{exitAgain, errors.New("interrupted; the same command goes on where it ended")}
			}
			return errors.Join(err, a.print(report, func(w io.Writer) { printArchived(w, report) }))
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&r.Brokers, "brokers", nil, "the brokers' addresses")
	fl.StringVar(&r.To, "to", "", "location of the archive: s3://bucket/prefix, file:///folder, or a folder")
	fl.StringVar(&r.Job, "job", "", "a job that reads the topic: reach the brokers as it does, and keep the columns that it reads")
	fl.BoolVar(&r.Raw, "raw", false, "with --job: keep records as they are")
	fl.StringVar(&from, "from-offsets", earliest, "where to begin in partitions of which nothing is archived yet: earliest, or PARTITION:OFFSET,…; others begin with the log")
	fl.IntVar(&r.RecordsPerSegment, "records-per-segment", 0, fmt.Sprintf("records at which a segment ends (default %d)", archive.DefaultRecordsPerSegment))
	fl.IntVar(&r.RecordsPerSecond, "records-per-second", 0, "read no more than so many on average (default: no limit)")
	return cmd
}

const earliest = "earliest"

// fromOffsets reads "earliest" or "0:120,3:98".
func fromOffsets(s string) (map[int32]int64, error) {
	if s == earliest {
		return nil, nil
	}
	out := map[int32]int64{}
	for part := range strings.SplitSeq(s, ",") {
		p, o, ok := strings.Cut(part, ":")
		partition, err1 := strconv.ParseUint(strings.TrimSpace(p), 10, 31)
		offset, err2 := strconv.ParseUint(strings.TrimSpace(o), 10, 63)
		_, twice := out[int32(partition)] //nolint:gosec // of 31 bits
		if !ok || twice || cmp.Or(err1, err2) != nil {
			return nil, fmt.Errorf("--from-offsets %s: write earliest, or a partition and its first offset each, as 0:120,3:98", s)
		}
		out[int32(partition)] = int64(offset) //nolint:gosec // of 31 and 63 bits
	}
	return out, nil
}

func printArchived(w io.Writer, r archive.Report) {
	id := ""
	if r.TopicID != "" {
		id = " (id " + r.TopicID + ")"
	}
	fmt.Fprintf(w, "topic    %s%s\n", r.Topic, id)
	fmt.Fprintf(w, "copied   %d records into %d segments, %s\n", r.Records, r.Segments, r.Bytes)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nPARTITION\tARCHIVED\tCOPIED NOW\tRECORDS\tSEGMENTS")
	for _, p := range r.Partitions {
		now := "-"
		if p.Next > p.From {
			now = fmt.Sprintf("%d-%d", p.From, p.Next)
		}
		fmt.Fprintf(t, "%d\t%d-%d\t%s\t%d\t%d\n", p.Partition, p.First, p.Next, now, p.Records, len(p.Segments))
	}
	t.Flush()
}

// archiveProgress draws a bar on a terminal, and writes a line a partition elsewhere.
type archiveProgress struct {
	io        IO
	bars      *mpb.Progress
	bar       *mpb.Bar
	partition int32
}

func newArchiveProgress(std IO) *archiveProgress {
	p := &archiveProgress{io: std, partition: -1}
	if std.Terminal {
		p.bars = mpb.New(mpb.WithOutput(std.Err), mpb.WithWidth(40))
	}
	return p
}

func (p *archiveProgress) update(u archive.Progress) {
	if p.bars == nil {
		if u.Partition != p.partition {
			p.partition = u.Partition
			fmt.Fprintf(p.io.Err, "copying  partition %d\n", u.Partition)
		}
		return
	}
	if p.bar == nil {
		p.bar = p.bars.AddBar(u.Offsets, mpb.PrependDecorators(decor.Name("offsets ")),
			mpb.AppendDecorators(decor.CountersNoUnit("%d/%d", decor.WCSyncSpace), decor.Elapsed(decor.ET_STYLE_GO, decor.WCSyncSpace)))
	}
	p.bar.SetCurrent(u.Done)
}

// done ends the display; a bar that is not full stays as it is.
func (p *archiveProgress) done() {
	if p.bar != nil {
		p.bar.Abort(false)
	}
	if p.bars != nil {
		p.bars.Wait()
	}
}
