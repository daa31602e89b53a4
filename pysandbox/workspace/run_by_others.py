"""The files by which usual programs of a host are told what to execute next, by the program that reads them: the mark
`runs-on-host` (risk.py). Pure data.

A name counts in any directory and in any case, as a directory may fold it. `guarded` files (`policy.guarded`) are not
here: they run although nobody builds, tests or opens anything. The table is of what is known; it cannot be of all.
"""

from __future__ import annotations

from collections.abc import Mapping

# By the whole name of a file.
NAMES: Mapping[str, tuple[str, ...]] = {
    "make and its like": (
        "Makefile", "GNUmakefile", "BSDmakefile", "makefile.am", "makefile.in", "Kbuild", "CMakeLists.txt",
        "CMakePresets.json", "CMakeUserPresets.json", "CTestTestfile.cmake", "meson.build", "meson_options.txt",
        "meson.options", "SConstruct", "SConscript", "wscript", "waf", "configure", "configure.ac", "configure.in",
        "autogen.sh", "build.ninja", "Jamroot", "Jamfile", "Tupfile", "xmake.lua", "premake5.lua", "justfile",
        ".justfile", "Taskfile.yml", "Taskfile.yaml", "Taskfile.dist.yml", "Taskfile.dist.yaml", "Rakefile", "Procfile",
        "Earthfile", "Snakefile", "dodo.py", "tasks.py", "invoke.yaml", "fabfile.py", "pavement.py", "magefile.go",
        "conanfile.py", "conanfile.txt", "vcpkg.json", "portfile.cmake",
    ),
    "bazel, buck, pants, please": (
        "BUILD", "BUILD.bazel", "WORKSPACE", "WORKSPACE.bazel", "WORKSPACE.bzlmod", "MODULE.bazel", ".bazelrc",
        ".bazeliskrc", ".bazelversion", "BUCK", ".buckconfig", ".buckconfig.local", "pants.toml", ".pants.rc",
        ".plzconfig",
    ),
    "containers and machines": (
        "Dockerfile", "Containerfile", "docker-compose.yml", "docker-compose.yaml", "docker-compose.override.yml",
        "docker-compose.override.yaml", "compose.yml", "compose.yaml", "compose.override.yml", "compose.override.yaml",
        "docker-bake.hcl", "docker-bake.json", "Vagrantfile", "devbox.json", "devenv.nix", "flake.nix", "flake.lock",
        "default.nix", "shell.nix", "skaffold.yaml", "Tiltfile", "helmfile.yaml", "Chart.yaml", "kustomization.yaml",
        "ansible.cfg", "terragrunt.hcl", ".terraformrc", "Pulumi.yaml", "serverless.yml", "cloudbuild.yaml",
    ),
    "javascript": (
        "package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock",
        "bun.lockb", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnp.js", ".pnp.cjs", ".pnp.loader.mjs", ".pnpmfile.cjs",
        "pnpmfile.js", "pnpm-workspace.yaml", "lerna.json", "nx.json", "project.json", "turbo.json", "rush.json",
        "bunfig.toml", "deno.json", "deno.jsonc", "import_map.json", "Gruntfile.js", "Gruntfile.coffee", "gulpfile.js",
        "gulpfile.mjs", "gulpfile.cjs", "gulpfile.ts", "Gulpfile.babel.js", "Jakefile", "Jakefile.js", "Cakefile",
        "brunch-config.js", "ember-cli-build.js", "angular.json", ".angular-cli.json", "nodemon.json", ".node_repl.js",
        ".lintstagedrc", ".releaserc", ".swcrc", ".parcelrc", ".taprc", ".c8rc", ".nycrc", "cypress.json",
        "karma.conf.js", "karma.conf.ts", "protractor.conf.js", "wdio.conf.js", "wdio.conf.ts", "tsconfig.json",
        "jsconfig.json", "tslint.json",
    ),
    "python": (
        "setup.py", "setup.cfg", "pyproject.toml", "poetry.lock", "poetry.toml", "pdm.toml", "Pipfile", "hatch.toml",
        "pixi.toml", "uv.toml", "conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "tox.toml", "noxfile.py",
        ".coveragerc", ".pdbrc", ".pylintrc", "pylintrc", ".pylintrc.toml", ".flake8", "mypy.ini", ".mypy.ini",
        ".isort.cfg", ".style.yapf", "sitecustomize.py", "usercustomize.py", "pyvenv.cfg", "pip.conf", "pip.ini",
        ".pypirc", ".pydistutils.cfg", "buildout.cfg", "ipython_config.py", "ipython_kernel_config.py",
        "jupyter_notebook_config.py", "jupyter_server_config.py", "jupyter_config.py",
        "gunicorn.conf.py", "celeryconfig.py", "conf.py", "mkdocs.yml", "requirements.txt", "constraints.txt",
        "environment.yml", "meta.yaml", ".condarc",
    ),
    "rust, go, zig, swift": (
        "Cargo.toml", "Cargo.lock", "build.rs", "clippy.toml", ".clippy.toml", "rustfmt.toml", ".rustfmt.toml",
        "go.mod", "go.work", ".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json", ".goreleaser.yml",
        ".goreleaser.yaml", ".air.toml", "build.zig", "build.zig.zon", "Package.swift",
    ),
    "java and its like": (
        "pom.xml", "mvnw", "mvnw.cmd", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts",
        "init.gradle", "init.gradle.kts", "gradle.properties", "local.properties", "gradlew", "gradlew.bat",
        "build.xml", "ivy.xml", "build.sbt", ".sbtopts", ".jvmopts", ".mill", "build.sc", "build.mill", "project.clj",
        "deps.edn", "bb.edn", "shadow-cljs.edn", "profiles.clj", ".lein-env", "build.boot",
    ),
    ".NET": (
        "Directory.Build.props", "Directory.Build.targets", "Directory.Build.rsp", "Directory.Packages.props",
        "Directory.Solution.props", "Directory.Solution.targets", "MSBuild.rsp", "global.json", "nuget.config",
        "dotnet-tools.json", "paket.dependencies", "build.cake", "omnisharp.json", "packages.config",
    ),
    "ruby, php, perl, lua, R, haskell and others": (
        "Gemfile", "Gemfile.lock", "gems.rb", ".irbrc", ".pryrc", ".rspec", ".rspec-local", "Guardfile", "Capfile",
        "Fastfile", "Appfile", "Podfile", "Dangerfile", "Brewfile", "Berksfile", "Puppetfile", "Thorfile",
        ".rubocop.yml", ".simplecov", "config.ru", "composer.json", "composer.lock", "phpunit.xml",
        "phpunit.xml.dist", ".php-cs-fixer.php", ".php-cs-fixer.dist.php", "phpstan.neon", "phpstan.neon.dist",
        "psalm.xml", "rector.php", ".user.ini", ".htaccess", "cpanfile", "Makefile.PL", "Build.PL",
        ".perlcriticrc", ".perltidyrc", ".proverc", ".replyrc", ".luacheckrc", ".luarc.json", ".luarc.jsonc",
        ".busted", ".Rprofile", ".Renviron", "renv.lock", "_targets.R", ".octaverc", "startup.jl",
        "Project.toml", "Manifest.toml", ".ghci", ".ghcid", "stack.yaml", "cabal.project", "cabal.project.local",
        "Setup.hs", "Setup.lhs", "hie.yaml", ".ocamlinit", "dune", "dune-project", "dune-workspace", "mix.exs",
        ".iex.exs", ".formatter.exs", "rebar.config", "rebar.config.script", ".erlang", "shard.yml", "pubspec.yaml",
        "build.yaml", "analysis_options.yaml", ".sbclrc", ".scalafmt.conf", ".sqliterc", ".psqlrc",
        ".mongorc.js", ".mongoshrc.js", ".gnuplot", "latexmkrc", ".latexmkrc", "texmf.cnf", "_quarto.yml",
    ),
    "tests, linters, formatters, hooks": (
        ".eslintrc", ".babelrc", ".prettierrc", ".stylelintrc", ".huskyrc", ".commitlintrc", ".czrc", ".mocharc",
        ".jshintrc", ".jscsrc", ".xo-config", ".remarkrc", ".markdownlint-cli2.jsonc", ".postcssrc", ".browserslistrc",
        "biome.json", "biome.jsonc", "dprint.json", ".overcommit.yml", ".lefthook.yml", "lefthook.yaml",
        "lefthook.toml", "lefthook-local.yml", "prek.toml", ".pre-commit-hooks.yaml", ".gitattributes", ".lfsconfig",
        ".megalinter.yml", ".mega-linter.yml", ".yamllint", ".clang-tidy", ".clang-format",
        "Trunk.yaml",
    ),
    "continuous integration": (
        ".gitlab-ci.yml", ".gitlab-ci.yaml", ".travis.yml", "Jenkinsfile", "azure-pipelines.yml",
        "azure-pipelines.yaml", "bitbucket-pipelines.yml", ".drone.yml", ".drone.star", ".cirrus.yml", ".cirrus.star",
        "appveyor.yml", ".appveyor.yml", "buildspec.yml", "codemagic.yaml", "wercker.yml", ".woodpecker.yml",
        ".woodpecker.yaml", ".build.yml", ".readthedocs.yml", ".readthedocs.yaml", "netlify.toml", "vercel.json",
        "fly.toml", "render.yaml", "app.yaml", "action.yml", "action.yaml", "dependabot.yml", "renovate.json",
        "semaphore.yml", "bors.toml",
    ),
    "versions of tools": (
        ".tool-versions", ".nvmrc", ".node-version", ".python-version", ".ruby-version", ".java-version",
        ".go-version", ".terraform-version", ".sdkmanrc", ".jabbarc", ".swift-version", ".rtx.toml", "mise.toml",
        ".mise.toml", "mise.local.toml", ".mise.local.toml", ".autoenv.zsh", ".autoenv", ".env",
        "aqua.yaml", ".prototools", "hermit.hcl",
    ),
    "editors, debuggers, language servers": (
        ".editorconfig", ".vimrc", "_vimrc", ".gvimrc", ".exrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".localrc.vim",
        ".vimspector.json", ".ycm_extra_conf.py", ".dir-locals.el", ".dir-locals-2.el", ".projectile", ".clangd",
        "compile_commands.json", "compile_flags.txt", ".ccls", ".lldbinit", ".gdbinit", ".gdbearlyinit",
        "pyrightconfig.json", "rust-project.json", ".rust-analyzer.json", "coc-settings.json", ".lsp.json",
        ".kakrc", ".nanorc", ".tmux.conf", ".screenrc", ".kateproject", ".project", ".classpath", ".cproject",
        ".aider.conf.yml", "opencode.jsonc", ".inputrc", ".wgetrc", ".curlrc", ".ssh", ".lessfilter",
        ".lesskey", ".mailcap", ".terminfo",
    ),
}  # fmt: skip

# By how a name begins, whatever comes after it and a dot: .eslintrc.json, .mocharc.cjs, Dockerfile.test.
STEMS = (".eslintrc", ".babelrc", ".prettierrc", ".stylelintrc", ".mocharc", ".lintstagedrc", ".commitlintrc",
         ".huskyrc", ".postcssrc", ".graphqlrc", ".releaserc", ".c8rc", ".nycrc", ".swcrc", ".remarkrc", ".cosmiconfig",
         ".dependency-cruiser", ".env", ".envrc", "dockerfile", "containerfile", "makefile", "gnumakefile",
         "jenkinsfile", "rakefile", "gruntfile", "gulpfile")  # fmt: skip

# But for one that ends so, which is read by people: Makefile.md, Dockerfile.png, .env.example.
INERT = (".md", ".rst", ".adoc", ".txt", ".html", ".pdf", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".example",
         ".sample")  # fmt: skip

# By how a name ends.
ENDS: Mapping[str, tuple[str, ...]] = {
    "is loaded in place of a source that was looked at": (
        ".pyc", ".pyo", ".pyd", ".so", ".dylib", ".dll", ".node", ".elc", ".eln", ".zwc", ".beam", ".luac", ".class",
        ".jar", ".war", ".whl", ".egg", ".gem", ".hi", ".o", ".a", ".wasm", ".phar", ".fasl",
    ),
    "is read at a start": (".pth", ".egg-link", ".service", ".socket", ".timer", ".desktop", ".plist"),
    "is included in a build": (
        ".mk", ".mak", ".cmake", ".bzl", ".bazel", ".gradle", ".gradle.kts", ".sbt", ".props", ".targets", ".rsp",
        ".csproj", ".fsproj", ".vbproj", ".vcxproj", ".sln", ".slnx", ".proj", ".pbxproj", ".xcconfig", ".gemspec",
        ".rockspec", ".cabal", ".podspec", ".nuspec", ".pro", ".pri", ".am", ".m4", ".ninja", ".nix", ".tf", ".rake",
    ),
    "is a configuration that is a program": (
        ".config.js", ".config.cjs", ".config.mjs", ".config.ts", ".config.mts", ".config.cts", ".conf.js", ".conf.ts",
        ".setup.js", ".setup.ts",
    ),
    "is opened as a project": (
        ".code-workspace", ".sublime-project", ".sublime-workspace", ".sublime-build", ".iml", ".ipr", ".iws",
        ".launch", ".kate-project", ".geany", ".code-snippets", ".vim", ".sln.dotsettings",
    ),
}  # fmt: skip

# By a directory that it lies in, at any depth.
BELOW = (".github", ".gitea", ".forgejo", ".gitlab", ".circleci", ".buildkite", ".woodpecker", ".drone", ".azuredevops",
         ".cargo", ".gradle", ".mvn", ".config", ".bundle", ".yarn", ".pnp", ".lefthook", ".kiro", ".roo", ".vim",
         ".nvim", ".emacs.d", ".fleet", ".sublime", ".theia", ".eclipse", ".settings", ".metals", ".bloop", ".vs",
         ".nuget", ".storybook", ".direnv", ".devbox", ".devenv", ".mise", ".moon", ".nx", ".ipython",
         ".jupyter", ".pre-commit", ".hg", ".jj", ".trunk", ".terraform", ".ddev", ".lando",
         ".stack-work", ".elixir_ls", ".vagrant.d", ".vagrant")  # fmt: skip
