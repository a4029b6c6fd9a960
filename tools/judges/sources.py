"""Sources of others' suites: of a local folder, or cloned at the pinned commit. Nothing of them enters the project."""
import io
import pathlib
import subprocess
import tarfile


class Unobtainable(Exception):
    """A source that is not here and cannot be fetched, with what was tried."""


def git(*arguments, **options):
    return subprocess.run(["git", *map(str, arguments)], capture_output=True, **options)


def repository(folder):
    """The git directory of a folder: of a clone, a bare repository, or one named repo in it; None if there is none."""
    for path in (folder / ".git", folder / "repo", folder):
        if (path / "HEAD").exists() and (path / "objects").is_dir():
            return path
    return None


def unpack(directory, source, to):
    """Unpacks the pinned commit of a git directory, which must have it."""
    run = git("--git-dir", directory, "archive", source["commit"], *source["folders"])
    if run.returncode:
        raise Unobtainable(f"commit {source['commit'][:12]} cannot be had of {directory}: {last(run)}")
    part = to.with_name(to.name + ".part")
    part.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(run.stdout)) as archive:
        archive.extractall(part, filter="data")
    part.rename(to)


def last(run):
    """The last line that git says."""
    return (run.stderr.decode(errors="replace").strip().splitlines() or ["git says nothing"])[-1]


def obtain(name, source, given, kept):
    """The folder of a source, and how it came: (path, "" or a remark). given is --sources, kept where copies stay."""
    at = kept / source["commit"][:12] / name
    if at.is_dir():
        return at, ""
    local = given / name if given else None
    directory = repository(local) if local and local.is_dir() else clone(name, source, local, kept)
    if directory is None:
        return local, "a folder as given, whose commit nobody has checked"
    unpack(directory, source, at)
    return at, ""


def clone(name, source, local, kept):
    """The git directory of a clone that has the pinned commit; local is where the source was looked for."""
    directory = kept / (name + ".git")
    directory.mkdir(parents=True, exist_ok=True)
    git("init", "--bare", "-q", directory)
    run = git("--git-dir", directory, "fetch", "-q", "--depth", "1", source["repository"], source["commit"])
    if run.returncode:
        where = f"{local} is not there" if local else "no --sources"
        raise Unobtainable(f"{where}, and {source['repository']} cannot be cloned: {last(run)}")
    return directory


def below(sources, names, kept):
    """A folder that has several sources side by side, as links."""
    folder = kept / "+".join(names)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(pathlib.Path(sources[name]).resolve())
    return folder
