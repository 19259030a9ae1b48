// Starts `gmlm lsp` and speaks the Language Server Protocol with it.
const { commands, window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const [command, ...args] = workspace.getConfiguration("gmlm").get("command");
  client = new LanguageClient("gmlm", "gmlmdsl", { command, args }, { documentSelector: [{ language: "gmlm" }] });
  return client.start().catch((error) => {
    // The client's own message names neither the command nor the setting.
    const install = "pip install 'gmlmdsl[editor]' installs it.";
    const advice = "If it is not on the path, the setting gmlm.command names it. Then reload the window.";
    window.showErrorMessage(`${[command, ...args].join(" ")} does not start. ${install} ${advice}`, "Open Setting").then(
      (chosen) => chosen && commands.executeCommand("workbench.action.openSettings", "gmlm.command"),
    );
    throw error;
  });
};

exports.deactivate = () => client && client.stop();
