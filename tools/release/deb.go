package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// debs writes Debian packages of the program, which depend on nothing.
func (r *release) debs() error {
	beside, err := r.beside()
	if err != nil {
		return err
	}
	for _, p := range linux {
		files := []file{{"usr/bin/khop", 0o755, r.program(p), nil},
			{"usr/share/doc/khop/copyright", 0o644, filepath.Join(r.root, "cmd", "khop", "NOTICES.txt"), nil}}
		size := 0
		for _, f := range beside {
			switch {
			case f.name == "README.md": // docs/README.md is the package's
				continue
			case strings.HasPrefix(f.name, "share/man/"): // Debian has them compressed
				text, err := f.read()
				if err != nil {
					return err
				}
				f = file{f.name + ".gz", f.mode, "", gzipped(text)}
			case strings.HasPrefix(f.name, "share/zsh/site-functions"):
				f.name = strings.Replace(f.name, "site-functions", "vendor-completions", 1)
			case !strings.HasPrefix(f.name, "share/"):
				f.name = "share/doc/khop/" + f.name
			}
			f.name = "usr/" + f.name
			files = append(files, f)
		}
		if files, err = sorted(files); err != nil {
			return err
		}
		for _, f := range files {
			size += len(f.text)
		}
		control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: %s\nInstalled-Size: %d\n"+
			"Section: science\nPriority: optional\nHomepage: %s\nDescription: %s\n khop samples neighbourhoods of"+
			" graphs that do not fit in memory,\n and feeds mini-batches to programs that train GNNs.\n",
			r.Name, r.Version, p.processor, r.Maintainer, size/1024, r.Source, r.Summary)
		if err := r.deb(p, control, files); err != nil {
			return err
		}
	}
	return nil
}

// deb writes one package: an archive of ar with a version, Debian's control file, and files.
func (r *release) deb(p platform, control string, files []file) error {
	told, err := tarred([]file{{"control", 0o644, "", []byte(control)}})
	if err != nil {
		return err
	}
	data, err := tarred(files)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, f := range []file{{name: "debian-binary", text: []byte("2.0\n")},
		{name: "control.tar.gz", text: gzipped(told)}, {name: "data.tar.gz", text: gzipped(data)}} {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", f.name, epoch.Unix(), 0, 0, 0o100644, len(f.text))
		out.Write(f.text)
		if len(f.text)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	name := fmt.Sprintf("%s_%s_%s.deb", r.Name, r.Version, p.processor)
	return os.WriteFile(filepath.Join(r.out, name), out.Bytes(), 0o644)
}

// manual returns man pages: khop(1), and one for each command. They are what --help prints, so that they say no less.
func (r *release) manual() ([]file, error) {
	program := r.program(platform{runtime.GOOS, runtime.GOARCH})
	help, err := r.with([]string{"COLUMNS=80"}, program, "--help")
	if err != nil {
		return nil, err
	}
	pages := []file{{"share/man/man1/khop.1", 0o644, "", manPage(r.Version, "khop", help)}}
	for _, name := range commandsIn(help) {
		if help, err = r.with([]string{"COLUMNS=80"}, program, name, "--help"); err != nil {
			return nil, err
		}
		name = "khop-" + name
		pages = append(pages, file{"share/man/man1/" + name + ".1", 0o644, "", manPage(r.Version, name, help)})
	}
	return pages, nil
}

// commandsIn returns the commands that "khop --help" lists in groups: the first word of a line that is two blanks in.
func commandsIn(help string) (names []string) {
	for _, line := range strings.Split(help, "\n") {
		if strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "   ") && !strings.HasPrefix(line, "  -") {
			names = append(names, strings.Fields(line)[0])
		}
	}
	return names
}

// manPage makes a page for man of what --help prints: a line of usage, what it is, and lists.
func manPage(version, name, help string) []byte {
	usage, rest, _ := strings.Cut(strings.TrimPrefix(help, "Usage: "), "\n\n")
	what, rest, _ := strings.Cut(rest, "\n\n")
	quoted := func(text string) string {
		text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
				lines[i] = `\&` + line
			}
		}
		return strings.Join(lines, "\n")
	}
	var b strings.Builder
	short := strings.TrimSuffix(strings.ReplaceAll(what, "\n", " "), ".")
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"khop %s\"\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n%s\n", strings.ToUpper(quoted(name)),
		version, quoted(name), quoted(short), quoted(usage))
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n.nf\n\n%s\n.fi\n", quoted(what), quoted(strings.TrimRight(rest, "\n")))
	fmt.Fprintf(&b, ".SH SEE ALSO\nThe pages in share/doc/khop, which \"khop docs\" shows.\n")
	return []byte(b.String())
}
