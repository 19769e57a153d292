// Command flashdec computes exact decode attention from tensor files, proves the
// answer against the direct float64 softmax, and shows how the work is cut.
//
// Exit codes: 0 done, 1 a check failed, 2 usage or bad input, 130 interrupted. Where
// nobody reads the pipe that it still writes to, SIGPIPE ends it, which a shell counts
// as 141: nothing is half written then, since files are done before they are told of.
// With --json, stdout carries one JSON object a line and nothing else; progress
// and prose go to stderr.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/flashdec/flashdec/internal/simd"
)

// Exit codes.
const (
	exitDone        = 0
	exitCheckFailed = 1
	exitBadInput    = 2
	exitInterrupted = 130 // as shells count: 128 + SIGINT
)

// errCheckFailed ends a verb whose report has already said what failed.
var errCheckFailed = errors.New("a check failed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first Ctrl-C, or what asks a process to end, cancels; a second one, with the default handling back in
	// place, ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

type commands struct {
	Version kong.VersionFlag `help:"Print the version and the commit."`

	Run        runCmd        `cmd:"" help:"Compute decode attention on a file's tensors and check the answer."`
	Verify     verifyCmd     `cmd:"" help:"Check files against the direct softmax, and against the out and lse they hold."`
	Explain    explainCmd    `cmd:"" help:"Walk through the derivation, with its own worked examples or with a file's numbers."`
	Plan       planCmd       `cmd:"" help:"Show how a batch of sequences is cut into work, and why."`
	Bench      benchCmd      `cmd:"" help:"Measure time and bytes a second, beside a bare read of the same bytes."`
	Trace      traceCmd      `cmd:"" help:"Show which processor computed what, and when: a timeline, with and without splits."`
	Generate   generateCmd   `cmd:"" help:"Continue a text with a language model, token by token."`
	Logits     logitsCmd     `cmd:"" help:"Compute a language model's logits at every position of a text."`
	Perplexity perplexityCmd `cmd:"" help:"Measure how well a language model, with its keys and values stored as told, predicts a text."`
	Tune       tuneCmd       `cmd:"" help:"Measure what a split and a thread are worth on this machine, and keep it."`
	Info       infoCmd       `cmd:"" help:"Show the processor's features, the kernels chosen, and versions."`
}

// run is main for a given command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	t := newTerminal(stdout, stderr)
	i := &interrupt{ctx: ctx}
	abandoned, err := i.run(func() error { return dispatch(i, t, args) })
	if !abandoned {
		if flushErr := t.flush(); err == nil {
			err = flushErr
		}
	}
	if err != nil && !errors.Is(err, errCheckFailed) {
		fmt.Fprintln(stderr, "flashdec: "+oneLine(err))
	}
	return exitCode(err)
}

func exitCode(err error) int {
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errCheckFailed):
		return exitCheckFailed
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	default:
		return exitBadInput
	}
}

// oneLine is an error's text in one line that a terminal can print, without the
// prefix of a package whose name says nothing to a user.
func oneLine(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	lines := joined(err)
	for i, line := range lines {
		lines[i] = escape(strings.TrimPrefix(line, "tensorfile: "))
	}
	return strings.Join(lines, "; ")
}

// joined is the texts of the errors that [errors.Join] put one below the other.
func joined(err error) []string {
	list, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []string{err.Error()}
	}
	var texts, below []string
	for _, e := range list.Unwrap() {
		texts = append(texts, e.Error())
		below = append(below, joined(e)...)
	}
	if strings.Join(texts, "\n") != err.Error() { // several wrapped in a sentence
		return []string{err.Error()}
	}
	return below
}

// exitRequest is the panic by which kong's Exit, called after printing help,
// leaves the parser.
type exitRequest struct{}

// dispatch reads the command line and runs the verb.
func dispatch(i *interrupt, t *terminal, args []string) (err error) {
	parser, err := newParser(i, t)
	if err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			if _, help := r.(exitRequest); !help {
				panic(r)
			}
		}
	}()
	command, err := parser.Parse(helpAsFlag(args))
	if err != nil {
		return usageError(parser, err)
	}
	if flag := emptyFlag(command); flag != "" {
		return fmt.Errorf("--%s is empty, want the name of a file (see flashdec %s --help)", flag, command.Selected().Name)
	}
	if err := simd.CheckEnv(); err != nil {
		return err
	}
	return command.Run()
}

// helpAsFlag is a command line where nothing asks for help, and help VERB for a verb's, as --help does.
func helpAsFlag(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	}
	return args
}

// negative is kong's word on a flag with a value of its own argument that begins with a
// hyphen, as flags do.
var negative = regexp.MustCompile(`^(--[a-z-]+): expected \w+ value but got "(-[0-9.][^"]*)"`)

// hyphened is kong's word on what begins with a hyphen and is no flag of the verb, or comes after --.
var hyphened = regexp.MustCompile(`^(unknown flag|unexpected argument) -`)

func versionLine() string {
	v, commit := version()
	return fmt.Sprintf("flashdec %s, commit %s", v, commit)
}

func newParser(i *interrupt, t *terminal) (*kong.Kong, error) {
	return kong.New(&commands{},
		kong.Name("flashdec"),
		kong.Description("Exact decode attention: the KV cache cut into splits, a state (m, l, o) a split, an exact merge.\n\n"+
			"Progress goes to stderr: a bar on a terminal, elsewhere a line every ten seconds.\n\n"+
			"-- ends the flags: what comes after it is a file or a text, also where it begins with a hyphen.\n\n"+
			"Exit codes: 0 done, 1 a check failed, 2 usage or bad input, 130 interrupted;\n"+
			"141 where nobody reads what it still has to print."),
		kong.Writers(t.out, t.errs),
		kong.Exit(func(int) { panic(exitRequest{}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 80}),
		kong.Vars{"version": versionLine(), "backends": backendNames(), "suites": strings.Join(suiteNames(), ","), "threads": strconv.Itoa(runtime.GOMAXPROCS(0))},
		kong.BindToProvider(i.context),
		kong.Bind(i),
		kong.Bind(t),
	)
}

// givenFlag is the first on a command line of some flags, "" where there is none.
func givenFlag(line *kong.Context, names ...string) string {
	for _, p := range line.Path {
		if p.Flag != nil && slices.Contains(names, p.Flag.Name) {
			return p.Flag.Name
		}
	}
	return ""
}

// emptyFlag is the first flag of a command line that is for a file and names none, as -o "" does, or "".
func emptyFlag(line *kong.Context) string {
	for _, p := range line.Path {
		if p.Flag == nil || p.Flag.PlaceHolder != "FILE" {
			continue
		}
		switch names := p.Flag.Target.Interface().(type) {
		case string:
			if names == "" {
				return p.Flag.Name
			}
		case []string:
			if slices.Contains(names, "") {
				return p.Flag.Name
			}
		}
	}
	return ""
}

// usageError says what is wrong with a command line, and where to look; which
// verbs there are where none was named.
func usageError(parser *kong.Kong, err error) error {
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && wrong.Context.Selected() == nil {
		var verbs []string
		for _, verb := range parser.Model.Leaves(true) {
			verbs = append(verbs, verb.Name)
		}
		return fmt.Errorf("%w, want one of %s (see flashdec --help)", err, strings.Join(verbs, ", "))
	}
	verb := ""
	if wrong != nil {
		verb = wrong.Context.Selected().Name + " "
	}
	if m := negative.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("%s is %s, want no negative number (see flashdec %s--help)", m[1], m[2], verb)
	}
	if wrong != nil && len(wrong.Context.Selected().Positional) > 0 && hyphened.MatchString(err.Error()) {
		return fmt.Errorf("%w; -- ends the flags, before what is none but begins with a hyphen (see flashdec %s--help)", err, verb)
	}
	return fmt.Errorf("%w (see flashdec %s--help)", err, verb)
}
