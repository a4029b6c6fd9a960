package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// goBuild builds the program for a platform, and returns its path.
func (r *release) goBuild(what string, p platform, env []string, tags string) (string, error) {
	to := filepath.Join(r.work, what+"-"+p.system+"-"+p.processor)
	_, err := r.with(append([]string{"CGO_ENABLED=0", "GOOS=" + p.system, "GOARCH=" + p.processor}, env...), "go",
		"build", "-modfile", r.modfile(), "-tags", tags, "-ldflags", r.ldflags(), "-o", to, "./cmd/khop")
	return to, err
}

// program is where the program of a platform was built.
func (r *release) program(p platform) string {
	return filepath.Join(r.work, "khop-"+p.system+"-"+p.processor)
}

// programs builds the static programs, each with its pages.
func (r *release) programs() error {
	host := platform{runtime.GOOS, runtime.GOARCH}
	for _, p := range append(append([]platform{host}, linux...), other...) {
		if _, err := os.Stat(r.program(p)); err == nil {
			continue
		}
		r.say("  %s", p)
		if _, err := r.goBuild("khop", p, nil, ""); err != nil {
			return err
		}
	}
	for _, p := range append(linux, other...) {
		if err := r.archiveProgram("khop", p, r.program(p)); err != nil {
			return err
		}
	}
	return nil
}

// archiveProgram writes the archive of a program, with what is beside it.
func (r *release) archiveProgram(what string, p platform, built string) error {
	files, err := r.beside()
	if err != nil {
		return err
	}
	program := "bin/" + what
	if p.system == "windows" {
		program += ".exe"
	}
	return r.archive(r.name(what, p), p.system, append(files, file{program, 0o755, built, nil}))
}

// beside returns what every archive of the program has: licences, pages, man pages, completions.
func (r *release) beside() ([]file, error) {
	files := []file{
		{"LICENSE", 0o644, filepath.Join(r.root, "LICENSE"), nil},
		{"NOTICES.txt", 0o644, filepath.Join(r.root, "cmd", "khop", "NOTICES.txt"), nil},
		{"README.md", 0o644, filepath.Join(r.root, "README.md"), nil},
		{"CHANGELOG.md", 0o644, filepath.Join(r.root, "CHANGELOG.md"), nil},
	}
	pages, err := filepath.Glob(filepath.Join(r.root, "docs", "*.md"))
	for _, page := range pages {
		files = append(files, file{"share/doc/khop/" + filepath.Base(page), 0o644, page, nil})
	}
	if err != nil {
		return nil, err
	}
	shells, err := r.completions()
	if err != nil {
		return nil, err
	}
	manual, err := r.manual()
	return append(append(files, shells...), manual...), err
}

// completions are scripts for shells, where these look for them below share.
func (r *release) completions() (files []file, err error) {
	for shell, at := range map[string]string{"bash": "bash-completion/completions/khop",
		"zsh": "zsh/site-functions/_khop", "fish": "fish/vendor_completions.d/khop.fish"} {
		text, err := r.output(r.program(platform{runtime.GOOS, runtime.GOARCH}), "completion", shell)
		if err != nil {
			return nil, err
		}
		if shell == "zsh" {
			text = "#compdef khop\n" + text
		}
		files = append(files, file{"share/" + at, 0o644, "", []byte(text)})
	}
	return files, nil
}

// cuda builds the programs that use a GPU where there is one. gcc compiles their C: gorgonia.org/cu names the system's
// headers, which Zig refuses beside its own. Another processor's is left out where there is no gcc for it.
func (r *release) cuda() error {
	exports, err := r.output("bash", "-c", `make -s cubins >&2
eval "$(tools/cuda-env.sh)"
env -0 | grep -z ^CGO_`)
	if err != nil {
		return err
	}
	env := strings.Split(strings.Trim(exports, "\x00"), "\x00")
	for _, p := range linux {
		r.say("  %s", p)
		cc := "gcc"
		if p.processor != runtime.GOARCH {
			cc = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[p.processor] + "-linux-gnu-gcc"
		}
		if _, err := exec.LookPath(cc); err != nil {
			r.say("  %s is LEFT OUT: there is no %s (Debian: gcc-aarch64-linux-gnu)", p, cc)
			continue
		}
		program, err := r.goBuild("khop-cuda", p, append(env, "CC="+cc, "CGO_ENABLED=1"), "cuda,cubins,netgo,osusergo")
		if err != nil {
			return err
		}
		if err := r.archiveProgram("khop-cuda", p, program); err != nil {
			return err
		}
	}
	return nil
}

// libraries builds the shared library with its header, and a file for pkg-config.
func (r *release) libraries() error {
	for _, p := range linux {
		r.say("  %s", p)
		to := filepath.Join(r.work, "libkhop-"+p.processor+".so")
		if _, err := r.with([]string{"PYTHON=" + r.python}, "tools/libkhop.sh", to, p.String()); err != nil {
			return err
		}
		pc := fmt.Sprintf("prefix=${pcfiledir}/../..\n\nName: khop\nDescription: %s\nURL: %s\nVersion: %s\n"+
			"Cflags: -I${prefix}/include\nLibs: -L${prefix}/lib -lkhop\n", r.Summary, r.Source, r.Version)
		if err := r.archive(r.name("libkhop", p), p.system, []file{
			{"LICENSE", 0o644, filepath.Join(r.root, "LICENSE"), nil},
			{"NOTICES.txt", 0o644, filepath.Join(r.root, "cmd", "khop", "NOTICES.txt"), nil},
			{"include/khop.h", 0o644, filepath.Join(r.root, "cmd", "libkhop", "khop.h"), nil},
			{"lib/libkhop.so", 0o755, to, nil},
			{"lib/pkgconfig/khop.pc", 0o644, "", []byte(pc)},
		}); err != nil {
			return err
		}
	}
	return nil
}

// wheels builds the Python package by the scripts that "make wheel" and "make sdist" run.
func (r *release) wheels() error {
	old, err := filepath.Glob(filepath.Join(r.root, "dist", "khop-*"))
	if err != nil {
		return err
	}
	for _, f := range old {
		if strings.HasSuffix(f, ".whl") || strings.HasSuffix(f, ".tar.gz") {
			os.Remove(f)
		}
	}
	env := []string{"PYTHON=" + r.python, "WHEELS=linux/amd64 linux/arm64", "LIBRARY=required"}
	for _, script := range []string{"tools/wheel.sh", "tools/sdist.sh"} {
		if _, err := r.with(env, script); err != nil {
			return err
		}
	}
	made, err := filepath.Glob(filepath.Join(r.root, "dist", "khop-"+r.Version+"*"))
	for _, f := range made {
		if err := os.Rename(f, filepath.Join(r.out, filepath.Base(f))); err != nil {
			return err
		}
	}
	return err
}

// bills writes what the programs for Linux are made of, in CycloneDX and SPDX, and the licences.
func (r *release) bills() error {
	for _, p := range linux {
		for _, as := range []string{"cdx", "spdx"} {
			command := map[string]string{"cdx": "sbom", "spdx": "spdx"}[as]
			text, err := r.output("go", "run", "-C", "tools/bom", ".", command, "../..", r.program(p))
			if err != nil {
				return err
			}
			name := r.name("khop", p) + "." + as + ".json"
			if err := os.WriteFile(filepath.Join(r.out, name), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(r.root, "cmd", "khop", "NOTICES.txt"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "NOTICES.txt"), text, 0o644)
}
