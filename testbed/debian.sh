# Debian's packages, through a package index of our own: the machine's stays as it is.
# Sourced by scripts that have defined fail() and $cache.

apt_options=()

# debian_index SUITE…: "bookworm", "bookworm-security", "trixie-backports"
debian_index() {
    local apt=$cache/apt suite uris uri
    command -v apt-get >/dev/null || fail "no apt-get here"
    uris=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sort -u)
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    : >"$apt/sources.list"
    for suite; do
        local kind='/debian/$'
        [[ $suite == *-security ]] && kind='/debian-security/$'
        uri=$(grep "$kind" <<<"$uris" | head -n 1) || fail "apt knows no mirror of Debian's $suite"
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main" >>"$apt/sources.list"
    done
    apt_options=(-q -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache" -o Dir::Etc::sourcelist="$apt/sources.list"
        -o Dir::Etc::sourceparts=- -o Dir::Etc::preferencesparts=- -o Acquire::Languages=none -o APT::Sandbox::User=)
    apt-get "${apt_options[@]}" update >"$apt/log" 2>&1 || fail "apt-get update failed; see $apt/log"
}

# debian_newest REGEX: the package with the newest name that matches all of it
debian_newest() {
    apt-cache "${apt_options[@]}" pkgnames | grep -xE "$1" | sort -V | tail -n 1 || true
}

debian_version() {
    apt-cache "${apt_options[@]}" show --no-all-versions "$1" | sed -n 's/^Version: //p'
}

# debian_fetch FOLDER PACKAGE…: the packages' files into the folder
debian_fetch() {
    local folder=$1
    shift
    mkdir -p "$folder"
    (cd "$folder" && apt-get "${apt_options[@]}" download "$@" >"$cache/apt/log" 2>&1) || fail "download failed; see $cache/apt/log"
}

# debian_source SUITE GIB: $tree is the newest kernel source that is there, and $version its version. If there is none, the
# suite's is fetched, where so many GiB are free.
debian_source() {
    local package room
    tree=$(ls -d "$cache"/source-*/ 2>/dev/null | sort -V | tail -n 1 || true)
    tree=${tree%/}
    version=${tree##*/source-}
    [[ ! $tree ]] || return 0
    room=$(($(df --output=avail -k "$cache" | tail -n 1) / 1048576))
    ((room >= $2)) || fail "$cache: $room GiB free, $2 GiB are needed"
    debian_index "$1"
    package=$(debian_newest 'linux-source-[0-9.]+')
    [[ $package ]] || fail "$1 has no linux-source package"
    version=$(debian_version "$package")
    tree=$cache/source-$version
    rm -rf "$cache/fetched"
    echo "fetching $package $version (about 170 MB)"
    debian_fetch "$cache/fetched" "$package"
    echo "unpacking"
    mkdir "$cache/fetched/tree"
    dpkg-deb --fsys-tarfile "$cache"/fetched/*.deb | tar -xO --wildcards './usr/src/*.tar.xz' |
        tar -xJ --strip-components=1 -C "$cache/fetched/tree"
    mv "$cache/fetched/tree" "$tree"
    rm -rf "$cache/fetched"
}
