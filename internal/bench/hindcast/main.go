// Command hindcast is the product with the jobs that are measured. $HINDCAST_BENCH_CPU, $HINDCAST_BENCH_MEM and $HINDCAST_BENCH_TRACE name
// files that a profile or trace is written to; for $HINDCAST_BENCH_SEGMENTS and $HINDCAST_BENCH_DATASETS see moved.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"

	"hindcast/internal/bench/jobs"
	"hindcast/internal/cli"
)

func main() { os.Exit(profiled()) }

func profiled() int {
	if os.Getenv("HINDCAST_BENCH_MEM") == "" {
		runtime.MemProfileRate = 0 // as in the product, where nothing asks for such profiles, which the linker sees
	}
	for variable, start := range map[string]func(*os.File) (func(), error){
		"HINDCAST_BENCH_CPU": func(f *os.File) (func(), error) { return pprof.StopCPUProfile, pprof.StartCPUProfile(f) },
		"HINDCAST_BENCH_MEM": func(f *os.File) (func(), error) {
			return func() {
				runtime.GC()
				if err := pprof.Lookup("allocs").WriteTo(f, 0); err != nil {
					fmt.Fprintln(os.Stderr, "bench: write the memory profile:", err)
				}
			}, nil
		},
		"HINDCAST_BENCH_TRACE": func(f *os.File) (func(), error) { return trace.Stop, trace.Start(f) },
	} {
		name := os.Getenv(variable)
		if name == "" {
			continue
		}
		f, err := os.Create(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			return 1
		}
		defer f.Close()
		stop, err := start(f)
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			return 1
		}
		defer stop()
	}
	list := jobs.All()
	for i := range list {
		var err error
		if list[i], err = moved(list[i]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			return 1
		}
	}
	return cli.Main(os.Args[1:], cli.Std(), list)
}
